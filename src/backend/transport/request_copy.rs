//! Copies a request, for senders that consume it.

use http::{HeaderName, HeaderValue, Method, Request, Uri};

use crate::body::Body;

/// All parts of a request. It has no index of the headers, which would cost every request more than it
/// saves for the few that are sent again.
pub(in crate::backend) struct RequestCopy {
    method: Method,
    uri: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Body,
}

impl RequestCopy {
    /// Copies a request; `None` if its body is not in memory.
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

    /// Puts the copy into `request`.
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
