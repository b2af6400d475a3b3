//! Links between the pages lead somewhere.

use std::fs;
use std::path::Path;

#[test]
fn links_between_the_pages_lead_somewhere() {
    let pages = [
        "README.md",
        "running.md",
        "metrics.md",
        "security.md",
        "batches.md",
        "gateways.md",
        "catalogs.md",
        "credentials.md",
        "extensions.md",
        "release.md",
    ];
    let slug = |heading: &str| {
        let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
        let slug: String = heading.to_lowercase().chars().filter(kept).collect();
        slug.replace(' ', "-")
    };
    let mut followed = 0;
    for page in pages
        .map(|page| format!("deploy/{page}"))
        .into_iter()
        .chain(["README.md".to_owned()])
    {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let from = root.join(&page);
        let links = fs::read_to_string(&from).unwrap();
        for link in links.split("](").skip(1) {
            let link = link.split(')').next().unwrap();
            if link.contains("://") {
                continue;
            }
            let (file, place) = link.split_once('#').unwrap_or((link, ""));
            let to = match file {
                "" => from.clone(),
                file => from.parent().unwrap().join(file),
            };
            assert!(to.exists(), "{page}: {link}");
            if !place.is_empty() {
                let text = fs::read_to_string(&to).unwrap();
                let headings = text.lines().filter(|line| line.starts_with('#'));
                let found = headings.map(|line| slug(line.trim_start_matches('#').trim()));
                assert!(
                    found.into_iter().any(|found| found == place),
                    "{page}: {link}"
                );
            }
            followed += 1;
        }
    }
    assert!(followed > 5, "{followed}");
}
