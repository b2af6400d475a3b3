//! A minimal proxy on Pingora: one catalog, no checks; default settings except those that make it faster
//! here.
//!
//! usage: pingora LISTEN CATALOG WORKERS

use async_trait::async_trait;
use pingora_core::Result;
use pingora_core::apps::HttpServerOptions;
use pingora_core::server::Server;
use pingora_core::server::configuration::ServerConf;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};

struct Forward {
    catalog: HttpPeer,
}

#[async_trait]
impl ProxyHttp for Forward {
    type CTX = ();

    fn new_ctx(&self) -> Self::CTX {}

    async fn upstream_peer(&self, _: &mut Session, _: &mut ()) -> Result<Box<HttpPeer>> {
        Ok(Box::new(self.catalog.clone()))
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [listen, catalog, workers] = words.as_slice() else {
        eprintln!("usage: pingora LISTEN CATALOG WORKERS");
        std::process::exit(2);
    };
    let settings = ServerConf {
        threads: workers.parse().unwrap_or(1),
        // More connections than the measured clients have.
        upstream_keepalive_pool_size: 1024,
        // With one thread there is no work to steal.
        work_stealing: false,
        ..ServerConf::default()
    };
    let mut server = Server::new_with_opt_and_conf(None, settings);
    server.bootstrap();
    let catalog = HttpPeer::new(catalog.as_str(), false, String::new());
    let mut service = http_proxy_service(&server.configuration, Forward { catalog });
    if let Some(proxy) = service.app_logic_mut() {
        let mut options = HttpServerOptions::default();
        options.h2c = true;
        options.keepalive_request_limit = None;
        proxy.server_options = Some(options);
    }
    service.add_tcp(listen);
    server.add_service(service);
    server.run_forever();
}
