//! The rights of the gateway's own requests to a catalog, beside those of callers.

use super::Backend;
use super::kind::Kind;

impl Backend {
    /// True if the gateway can send requests of its own: a service token, OAuth or static headers are configured, or
    /// the catalog needs none.
    pub fn has_service_credentials(&self) -> bool {
        match &self.to.kind {
            Kind::Rest(rest) => rest.has_service_credentials(),
            #[cfg(feature = "dir")]
            Kind::Dir(_) => true,
            Kind::Own(_) => true,
        }
    }

    /// True if the gateway's own requests may be allowed more at the catalog than those of callers.
    pub fn privileges_own(&self) -> bool {
        match &self.to.kind {
            Kind::Rest(rest) => rest.privileges_own(),
            #[cfg(feature = "dir")]
            Kind::Dir(_) => false,
            Kind::Own(_) => false,
        }
    }

    /// True if the gateway's own requests show who sends them.
    pub(super) fn shows_service_credentials(&self) -> bool {
        match &self.to.kind {
            Kind::Rest(rest) => rest.shows_service_credentials(),
            #[cfg(feature = "dir")]
            Kind::Dir(_) => true,
            Kind::Own(_) => true,
        }
    }
}
