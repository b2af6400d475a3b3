//! What a request is made of once more, where whoever sends it takes it apart.

use http::{HeaderName, HeaderValue, Method, Request, Uri};

use crate::body::Body;

/// All of a request. Without an index of its headers, which would cost every request more than the few
/// that are sent again are worth.
pub(in crate::backend) struct RequestCopy {
    method: Method,
    uri: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Body,
}

impl RequestCopy {
    /// `None` when its body is not in memory.
    pub(in crate::backend) fn of(request: &Request<Body>) -> Option<Self> {
        let headers = request.headers().iter();
        Some(Self {
            body: request.body().copy()?,
            method: request.method().clone(),
            uri: request.uri().clone(),
            headers: headers
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        })
    }

    /// Makes it.
    pub(in crate::backend) fn restore(self, request: &mut Request<Body>) {
        *request = Request::new(self.body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        let headers = request.headers_mut();
        for (name, value) in self.headers {
            headers.append(name, value);
        }
    }
}
