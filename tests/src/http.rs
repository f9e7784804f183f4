//! The HTTP client of the tests.

/// A client. The first call chooses what TLS is made of, which a client wants decided even where it never uses it.
pub fn client() -> reqwest::Client {
    // An error says that somebody else in this process chose before.
    let _chosen = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}
