//! Resolves a list of names with hickory-resolver: `bench-hickory NAMES RESOLVER CONCURRENCY`. Prints a line for each
//! question: name, type, number of records or `failed`.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;

use futures_util::StreamExt;
use futures_util::stream;
use hickory_resolver::Resolver;
use hickory_resolver::config::{NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RecordType;

const TYPES: [RecordType; 3] = [RecordType::A, RecordType::AAAA, RecordType::HTTPS];

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [names, server, concurrency] = arguments.as_slice() else {
        return Err("usage: bench-hickory NAMES RESOLVER CONCURRENCY".into());
    };
    let names = fs::read_to_string(names)?;
    let server: IpAddr = server.parse()?;
    let config = ResolverConfig::from_parts(None, Vec::new(), vec![NameServerConfig::udp_and_tcp(server)]);
    let mut builder = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
    let options = builder.options_mut();
    // A scan queries every name once.
    options.cache_size = 0;
    options.max_active_requests = usize::MAX;
    let resolver = builder.build()?;
    let questions = names
        .lines()
        .flat_map(|name| TYPES.map(|kind| (format!("{name}."), kind)));
    let answers = stream::iter(questions)
        .map(|(name, kind)| {
            let resolver = &resolver;
            async move {
                let found = match resolver.lookup(name.as_str(), kind).await {
                    Ok(lookup) => lookup.answers().len().to_string(),
                    Err(error) if error.is_no_records_found() => "0".to_owned(),
                    Err(_) => "failed".to_owned(),
                };
                (name, kind, found)
            }
        })
        .buffer_unordered(concurrency.parse()?);
    let mut out = BufWriter::new(io::stdout());
    let mut answers = std::pin::pin!(answers);
    while let Some((name, kind, found)) = answers.next().await {
        writeln!(out, "{name} {kind} {found}")?;
    }
    Ok(out.flush()?)
}
