//! Requests and answers over HTTP: one client, set up once.
//!
//! Here: addresses, headers, time-outs, the limit on answers, and whether a request certainly never left. Not here: what an
//! answer means. Redirects are not followed: a POST that a proxy moves elsewhere would carry patients to an unknown place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fhir::{Bundle, BundleType, Json};
use jiff::Timestamp;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, Url};

use crate::config::Config;
use crate::error::{ConnectError, Reason};

const FHIR_JSON: HeaderValue = HeaderValue::from_static("application/fhir+json");
/// Answers carry no resources: we know what we wrote (R4 §3.1.0.1.9).
const PREFER_MINIMAL: HeaderValue = HeaderValue::from_static("return=minimal");
/// Shorter than the idle time-outs of common servers (the shortest are 5 s), so that few requests meet a connection being
/// closed: the outcome of such a request is unknown.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// A client for one server.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    client: Client,
    base: Url,
    answer_bytes_max: usize,
    /// Requests made, over all clones.
    requests: Arc<AtomicU64>,
}

/// An answer read to its end.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Result<Json, Reason>,
}

/// No answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// Nothing was sent.
    NotSent(Reason),
    /// Something was sent.
    Lost(Reason),
}

impl NoAnswer {
    pub(crate) fn reason(self) -> Reason {
        let (Self::NotSent(reason) | Self::Lost(reason)) = self;
        reason
    }
}

impl Http {
    pub(crate) fn new(config: &Config) -> Result<Self, ConnectError> {
        let base = Url::parse(config.base_url.trim_end_matches('/')).map_err(|_| ConnectError::Address)?;
        if !matches!(base.scheme(), "http" | "https") || base.query().is_some() || base.fragment().is_some() {
            return Err(ConnectError::Address);
        }
        // Fails only if the process has a provider already, which then serves as well.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        // A machine without trust anchors can still reach a server without TLS.
        let builder = if base.scheme() == "http" { Client::builder().tls_certs_only([]) } else { Client::builder() };
        let client = builder
            .http1_only()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            // Proxies from the environment would see what they are not meant to.
            .no_proxy()
            .tcp_nodelay(true)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .connect_timeout(config.connect_timeout)
            .timeout(config.request_timeout)
            .user_agent(concat!("sluice/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(ConnectError::Client)?;
        Ok(Self { client, base, answer_bytes_max: config.answer_bytes_max, requests: Arc::default() })
    }

    /// How many requests were made.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Posts a batch or transaction to the base address.
    pub(crate) async fn post(&self, bundle: &Bundle) -> Result<Answer, NoAnswer> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, FHIR_JSON);
        headers.insert(ACCEPT, FHIR_JSON);
        // In a batch it would take away what was asked for.
        if bundle.bundle_type == BundleType::Transaction {
            headers.insert("prefer", PREFER_MINIMAL);
        }
        let request = self.client.post(self.base.clone()).headers(headers).body(bundle.to_text());
        let answer = self.exchange(request).await;
        let status = answer.as_ref().map_or(0, |answer| answer.status);
        tracing::debug!(kind = bundle.bundle_type.as_str(), entries = bundle.entries.len(), status, "FHIR request");
        answer
    }

    /// Reads the CapabilityStatement.
    pub(crate) async fn metadata(&self) -> Result<Answer, NoAnswer> {
        let mut url = self.base.clone();
        url.set_path(&[url.path().trim_end_matches('/'), "/metadata"].concat());
        self.exchange(self.client.get(url).header(ACCEPT, FHIR_JSON)).await
    }

    async fn exchange(&self, request: reqwest::RequestBuilder) -> Result<Answer, NoAnswer> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let response = request.send().await.map_err(|error| no_answer(&error))?;
        let status = response.status().as_u16();
        let retry_after = retry_after(response.headers(), Timestamp::now());
        let body = self.body(response).await;
        let body = body.and_then(|body| Json::parse_bytes(&body).map_err(|_| Reason::NotJson));
        Ok(Answer { status, retry_after, body })
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, Reason> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| lost(&error))? {
            if chunk.len() > self.answer_bytes_max.saturating_sub(body.len()) {
                return Err(Reason::AnswerTooLong);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

fn no_answer(error: &reqwest::Error) -> NoAnswer {
    if error.is_connect() || error.is_builder() {
        NoAnswer::NotSent(Reason::NoConnection)
    } else {
        NoAnswer::Lost(lost(error))
    }
}

fn lost(error: &reqwest::Error) -> Reason {
    if error.is_timeout() { Reason::TimedOut } else { Reason::ConnectionLost }
}

/// `Retry-After` as seconds or as a date (RFC 9110 §10.2.3).
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    // A date in the past asks for no wait.
    Some(Duration::try_from(until.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &'static str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static(text));
        retry_after(&headers, "2024-05-01T12:00:00Z".parse().unwrap())
    }

    #[test]
    fn retry_after_in_both_forms() {
        assert_eq!(asked("90"), Some(Duration::from_secs(90)));
        assert_eq!(asked("Wed, 01 May 2024 12:00:30 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(asked("Wed, 01 May 2024 11:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(asked("soon"), None);
        assert_eq!(retry_after(&HeaderMap::new(), Timestamp::now()), None);
    }

    #[test]
    fn base_addresses() {
        for good in ["http://x.org/fhir", "https://x.org", "http://[::1]:80/"] {
            assert!(Http::new(&Config::new(good)).is_ok(), "{good}");
        }
        for bad in ["", "x.org/fhir", "ftp://x.org", "http://x.org/fhir?a=b", "http://x.org/#f"] {
            assert!(matches!(Http::new(&Config::new(bad)), Err(ConnectError::Address)), "{bad}");
        }
    }
}
