//! The endpoint over HTTP: requests and answers, and the deviations that show on the wire.
//!
//! Lives here: headers, bodies, and a listener whose connections can be cut. Does not: what a request means.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, State, connect_info::Connected};
use axum::http::{HeaderMap, HeaderName, StatusCode, header, request::Parts};
use axum::response::{IntoResponse as _, Response};
use axum::serve::{IncomingStream, Listener};
use fhir::Json;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use crate::Sandbox;
use crate::outcome::Refusal;
use crate::profile::spend;
use crate::request::{Answer, Method, Prefer, Request, criteria, parameters};

const FHIR_JSON: &str = "application/fhir+json; charset=utf-8";
/// What a proxy shows when something behind it fails.
const HTML_PAGE: &str = "<html><head><title>Error</title></head><body><h1>Something went wrong</h1></body></html>";

pub(crate) fn router(sandbox: Sandbox) -> Router {
    Router::new().fallback(serve).with_state(sandbox)
}

async fn serve(State(sandbox): State<Sandbox>, request: axum::extract::Request) -> Response {
    let (latency, body_bytes_max) = {
        let mut engine = sandbox.engine();
        engine.counters.requests += 1;
        (engine.profile.latency, engine.profile.body_bytes_max)
    };
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, body_bytes_max).await;
    if let Some(refused) = out_of_order(&sandbox) {
        return refused;
    }
    let interaction = match body {
        Ok(body) => read(&parts, &body),
        Err(_) => Err(Refusal::new(413, "too-long", "the body is too long")),
    };
    let cutter = parts.extensions.get::<ConnectInfo<Cutter>>().map(|ConnectInfo(cutter)| cutter.clone());
    answer(&sandbox, interaction, cutter)
}

/// The answer of a server that is down, if it is.
fn out_of_order(sandbox: &Sandbox) -> Option<Response> {
    let mut engine = sandbox.engine();
    let failure = engine.profile.fails_with.as_mut()?;
    let spent = spend(&mut failure.times);
    let (status, retry_after_s) = (failure.status, failure.retry_after_s);
    if failure.times == 0 {
        engine.profile.fails_with = None;
    }
    if !spent {
        return None;
    }
    engine.counters.refusals += 1;
    let code = if status == 401 || status == 403 { "security" } else { "transient" };
    let mut response = refused(&Refusal::new(status, code, "out of order, as the profile asks"));
    if let Some(seconds) = retry_after_s {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    Some(response)
}

/// Reads an HTTP request as an interaction.
fn read(parts: &Parts, body: &Bytes) -> Result<Request, Refusal> {
    let method = Method::parse(parts.method.as_str())?;
    let url = parts.uri.path_and_query().map_or("", |url| url.as_str());
    let mut request = Request::new(method, url);
    let text = |name: HeaderName| header_text(&parts.headers, &name);
    request.if_match = text(header::IF_MATCH);
    request.if_none_match = text(header::IF_NONE_MATCH);
    request.if_none_exist = text(HeaderName::from_static("if-none-exist")).map(|query| criteria(&query));
    request.prefer = match text(HeaderName::from_static("prefer")).unwrap_or_default() {
        prefer if prefer.contains("return=minimal") => Prefer::Minimal,
        prefer if prefer.contains("return=representation") => Prefer::Representation,
        _ => Prefer::Unsaid,
    };
    let content_type = text(header::CONTENT_TYPE).unwrap_or_default();
    match method {
        Method::Post if request.path.last().is_some_and(|segment| segment == "_search") => {
            request.query.extend(parameters(body));
        }
        Method::Post | Method::Put if !content_type.contains("json") => {
            return Err(Refusal::new(415, "not-supported", "the body must be application/fhir+json"));
        }
        Method::Post | Method::Put => {
            let resource = Json::parse_bytes(body);
            let fault = |error| Refusal::new(400, "structure", format!("the body is {error}"));
            request.resource = Some(resource.map_err(fault)?);
        }
        Method::Get | Method::Delete => {}
    }
    Ok(request)
}

fn header_text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// Does what is asked for and answers, as the profile wants it answered.
fn answer(sandbox: &Sandbox, interaction: Result<Request, Refusal>, cutter: Option<Cutter>) -> Response {
    let mut engine = sandbox.engine();
    let (request, result) = match interaction {
        Ok(request) if request.method == Method::Post && request.path.is_empty() => {
            let result = engine.bundle(&request);
            (Some(request), result)
        }
        Ok(request) => {
            let result = engine.perform(&request);
            (Some(request), result)
        }
        Err(refusal) => {
            engine.counters.refusals += 1;
            (None, Err(refusal))
        }
    };
    let probe = request.as_ref().is_some_and(|request| request.path.first().is_some_and(|path| path == "metadata"));
    let writes = request.as_ref().is_some_and(|request| {
        request.method != Method::Get && request.path.last().is_none_or(|segment| segment != "_search")
    });
    let profile = &mut engine.profile;
    match (result, request) {
        (Ok(_), _) if writes && spend(&mut profile.resets_after_apply) => cut(cutter),
        (Ok(answer), Some(request)) => {
            let truncated = !probe && spend(&mut profile.truncates_body);
            let base_url = engine.base_url.clone();
            drop(engine);
            answered(&base_url, &request, answer, truncated)
        }
        (Ok(_), None) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        (Err(_), _) if spend(&mut profile.returns_html_errors) => {
            ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], HTML_PAGE).into_response()
        }
        (Err(refusal), _) => refused(&refusal),
    }
}

fn refused(refusal: &Refusal) -> Response {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = refusal.operation_outcome().to_string();
    (status, [(header::CONTENT_TYPE, FHIR_JSON)], body).into_response()
}

fn answered(base_url: &str, request: &Request, answer: Answer, truncated: bool) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let minimal = request.prefer == Prefer::Minimal && matches!(request.method, Method::Put | Method::Post);
    let body = answer.body.filter(|_| !(minimal && answer.about.is_some())).map(|body| body.to_string());
    let mut response = match body {
        Some(mut body) => {
            if truncated {
                body.truncate(body.floor_char_boundary(body.len() / 2));
            }
            (status, [(header::CONTENT_TYPE, FHIR_JSON)], body).into_response()
        }
        None => status.into_response(),
    };
    if let Some(about) = answer.about {
        let modified = about.last_updated.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let mut headers = vec![(header::ETAG, about.etag().to_string()), (header::LAST_MODIFIED, modified)];
        if about.located {
            headers.push((header::LOCATION, format!("{base_url}/{}", about.location())));
        }
        let values = headers.into_iter().filter_map(|(name, value)| Some((name, value.try_into().ok()?)));
        response.headers_mut().extend(values);
    }
    response
}

/// Drops the connection without an answer. Where the server is not ours, the answer's body fails instead.
fn cut(cutter: Option<Cutter>) -> Response {
    if let Some(cutter) = cutter {
        cutter.cut.store(true, Ordering::Release);
        return Response::default();
    }
    let broken = futures_util::stream::iter([Err::<Bytes, _>(io::Error::from(io::ErrorKind::ConnectionReset))]);
    Response::new(Body::from_stream(broken))
}

/// Cuts one connection: nothing more is written to it.
#[derive(Clone, Debug)]
pub(crate) struct Cutter {
    cut: Arc<AtomicBool>,
}

/// A listener whose connections can be cut.
#[derive(Debug)]
pub(crate) struct CuttableListener(pub(crate) TcpListener);

pub(crate) struct Cuttable {
    stream: TcpStream,
    cutter: Cutter,
}

impl Listener for CuttableListener {
    type Io = Cuttable;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        // Axum's own accept waits out errors such as too many open files.
        let (stream, peer) = Listener::accept(&mut self.0).await;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "answers may be late");
        }
        (Cuttable { stream, cutter: Cutter { cut: Arc::default() } }, peer)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.0.local_addr()
    }
}

impl Connected<IncomingStream<'_, CuttableListener>> for Cutter {
    fn connect_info(stream: IncomingStream<'_, CuttableListener>) -> Self {
        stream.io().cutter.clone()
    }
}

impl AsyncRead for Cuttable {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Cuttable {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.cutter.cut.load(Ordering::Acquire) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
