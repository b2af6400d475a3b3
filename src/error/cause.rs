//! An error with all its causes in one line, for the log. TLS errors are put in words that say what to change.

use std::error::Error;
use std::fmt;
use std::io;

use rustls::{AlertDescription, CertificateError, InvalidMessage};

/// Displays an error and its causes with `: ` between them, because hyper's own message says too little.
pub struct Causes<'a>(pub &'a (dyn Error + 'static));

/// Returns an error and its causes, outermost first.
pub fn chain<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// Returns the innermost cause, because those around it say only that sending failed; for TLS, what to change.
pub fn innermost(error: &(dyn Error + 'static)) -> String {
    if tls(error).is_some() {
        return Causes(error).to_string();
    }
    chain(error)
        .last()
        .map_or_else(String::new, ToString::to_string)
}

/// Returns where a JSON document is wrong, without anything of what it holds: serde's own words quote values, which may be
/// of the wrong file.
pub fn in_json(error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    let wrong = match error.classify() {
        Category::Io => "cannot be read",
        Category::Syntax => "is not JSON",
        Category::Eof => "ends too early",
        Category::Data => "is JSON of another shape",
    };
    format!("{wrong}, line {} column {}", error.line(), error.column())
}

/// Returns the messages of errors with `: ` between them.
pub fn joined<'a>(errors: impl Iterator<Item = &'a (dyn Error + 'static)>) -> String {
    let messages: Vec<String> = errors.map(ToString::to_string).collect();
    messages.join(": ")
}

/// True if the peer ended the handshake because of the certificate that it was shown, or because it was shown none. In
/// TLS 1.3 the client may have sent its request by then, but the peer has not read it.
pub fn is_about_our_certificate(error: &(dyn Error + 'static)) -> bool {
    matches!(tls(error), Some(rustls::Error::AlertReceived(alert)) if words_of(*alert).is_some())
}

/// True if TLS failed: the two do not trust each other, or one does not speak it.
pub fn is_tls(error: &(dyn Error + 'static)) -> bool {
    tls(error).is_some()
}

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(error) = tls(self.0)
            && let Some(words) = words(error)
        {
            return write!(f, "{words} ({error})");
        }
        f.write_str(&joined(chain(self.0)))
    }
}

fn words(error: &rustls::Error) -> Option<&'static str> {
    use CertificateError as Bad;
    Some(match error {
        rustls::Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => {
            "its certificate is signed by no authority that is trusted; name its authority in `ca`"
        }
        rustls::Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
            "its certificate has expired"
        }
        rustls::Error::InvalidCertificate(
            Bad::NotValidForName | Bad::NotValidForNameContext { .. },
        ) => "its certificate is for other names than the one in its address",
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "it does not speak TLS"
        }
        rustls::Error::AlertReceived(alert) => words_of(*alert)?,
        _ => return None,
    })
}

/// Returns the message for an alert of RFC 8446, section 6.2, that is about the certificate of its receiver; `None` for
/// others.
fn words_of(alert: AlertDescription) -> Option<&'static str> {
    use AlertDescription as Alert;
    Some(match alert {
        Alert::CertificateRequired => {
            "it asks for a client certificate; name one in `certificate` and `private_key`"
        }
        Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateExpired
        | Alert::CertificateUnknown
        | Alert::UnknownCA
        | Alert::AccessDenied => "it does not accept the client certificate it is shown",
        _ => return None,
    })
}

fn tls<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(error) = error.downcast_ref() {
        return Some(error);
    }
    // The source of an `io::Error` skips the error inside of it, so that one is checked first.
    match error.downcast_ref::<io::Error>() {
        Some(error) => tls(error.get_ref()?),
        None => tls(error.source()?),
    }
}
