//! One interaction as asked for: the same whether it came as an HTTP request or as an entry of a bundle.

use fhir::Json;
use smol_str::SmolStr;

use crate::outcome::Refusal;
use crate::resources::{Key, Version};

/// HTTP methods the API uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Method {
    // In the order in which a transaction handles them (R4 §3.1.0.11.2).
    Delete,
    Post,
    Put,
    Get,
}

impl Method {
    pub(crate) fn parse(text: &str) -> Result<Self, Refusal> {
        match text {
            "GET" | "HEAD" => Ok(Self::Get),
            "POST" => Ok(Self::Post),
            "PUT" => Ok(Self::Put),
            "DELETE" => Ok(Self::Delete),
            _ => Err(Refusal::new(405, "not-supported", "method is not supported")),
        }
    }
}

/// An interaction asked for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Segments of the path below the base URL.
    pub(crate) path: Vec<String>,
    /// Parameters of the URL, for `_search` also of the body.
    pub(crate) query: Vec<(String, String)>,
    pub(crate) resource: Option<Json>,
    pub(crate) if_match: Option<String>,
    pub(crate) if_none_match: Option<String>,
    /// Parameters of If-None-Exist.
    pub(crate) if_none_exist: Option<Vec<(String, String)>>,
    /// `Prefer: return=…`
    pub(crate) prefer: Prefer,
}

/// What a write answers with (R4 §3.1.0.1.9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Prefer {
    /// A single write with the resource, a transaction without the resources.
    #[default]
    Unsaid,
    Minimal,
    Representation,
}

impl Request {
    /// A request for a URL relative to the base.
    pub(crate) fn new(method: Method, url: &str) -> Self {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        Self {
            method,
            path: path.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect(),
            query: parameters(query.as_bytes()),
            resource: None,
            if_match: None,
            if_none_match: None,
            if_none_exist: None,
            prefer: Prefer::Unsaid,
        }
    }

    /// The interaction an entry of a batch or transaction asks for.
    pub(crate) fn from_entry(entry: &Json, base_url: &str, prefer: Prefer) -> Result<Self, Refusal> {
        let request = entry.get("request").ok_or_else(|| Refusal::new(400, "required", "request is missing"))?;
        let member = |name| request.get(name).and_then(Json::as_str);
        let method = Method::parse(member("method").unwrap_or_default())?;
        let url = member("url").ok_or_else(|| Refusal::new(400, "required", "request.url is missing"))?;
        let relative = url.strip_prefix(base_url).unwrap_or(url);
        Ok(Self {
            resource: entry.get("resource").cloned(),
            if_match: member("ifMatch").map(str::to_owned),
            if_none_match: member("ifNoneMatch").map(str::to_owned),
            if_none_exist: member("ifNoneExist").map(criteria),
            prefer,
            ..Self::new(method, relative)
        })
    }

    /// The resource of a write, which must be of the type the URL names.
    pub(crate) fn resource_of(&self, resource_type: &str) -> Result<Json, Refusal> {
        let resource = self.resource.as_ref().ok_or_else(|| Refusal::new(400, "required", "no resource"))?;
        match resource.resource_type() {
            Some(named) if named == resource_type => Ok(resource.clone()),
            Some(_) => Err(Refusal::invalid("resourceType is not the type in the URL")),
            None => Err(Refusal::new(400, "structure", "resourceType is missing")),
        }
    }
}

/// Parameters of a query or a form.
pub(crate) fn parameters(query: &[u8]) -> Vec<(String, String)> {
    form_urlencoded::parse(query).into_owned().collect()
}

/// Parameters of an If-None-Exist, with or without its `?`.
pub(crate) fn criteria(query: &str) -> Vec<(String, String)> {
    parameters(query.rsplit_once('?').map_or(query, |(_, query)| query).as_bytes())
}

/// The version an ETag names: `W/"1"`, `"1"` (R4 §3.1.0.1.3).
pub(crate) fn etag_version(etag: &str) -> Result<u64, Refusal> {
    let quoted = etag.strip_prefix("W/").unwrap_or(etag);
    let version = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    version.and_then(|version| version.parse().ok()).ok_or_else(|| Refusal::invalid("If-Match is no ETag of ours"))
}

/// Whether `id` can be the id of a resource (R4 §2.24.0.1).
pub(crate) fn is_id(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}

/// What an interaction is answered with.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Option<Json>,
    /// The version the answer is about, for ETag, Last-Modified and Location.
    pub(crate) about: Option<About>,
}

/// A version and whose it is.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) key: Key,
    pub(crate) number: u64,
    pub(crate) last_updated: jiff::Timestamp,
    /// Whether a Location belongs in the answer.
    pub(crate) located: bool,
}

impl Answer {
    pub(crate) fn of(body: Json) -> Self {
        Self { status: 200, body: Some(body), about: None }
    }

    /// An answer about a version, with its content.
    pub(crate) fn about(status: u16, key: &Key, version: &Version, located: bool) -> Self {
        let about = About { key: key.clone(), number: version.number, last_updated: version.last_updated, located };
        Self { status, body: version.content.as_deref().cloned(), about: Some(about) }
    }
}

impl About {
    pub(crate) fn etag(&self) -> SmolStr {
        smol_str::format_smolstr!("W/\"{}\"", self.number)
    }

    /// `Type/id/_history/n`, below the base URL.
    pub(crate) fn location(&self) -> String {
        format!("{}/_history/{}", self.key, self.number)
    }
}
