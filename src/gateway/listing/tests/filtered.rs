//! Random trees under random rules: a listing contains exactly what the caller may read and the namespaces that lead
//! there, page by page.

use super::*;
use crate::auth::access::{Rights, Rules};
use crate::config::{Access as Need, AuthorizationRule};
use crate::protocol::operation::Access;
use crate::protocol::principal::{Identity, Principal};
use crate::util::dice::Dice;

impl Dice {
    fn namespace(&mut self, most: usize) -> Vec<&'static str> {
        let length = self.below(most + 1);
        let names = ["a", "ab", "b"];
        (0..length).map(|_| self.one_of(&names)).collect()
    }
}

/// Catalogs with tables, by backend; a namespace exists if there is a table below it.
struct Trees {
    tables: [BTreeSet<Vec<&'static str>>; 3],
    /// True if the catalogs do as `limit` says.
    has_pages: bool,
    asked: Mutex<BTreeSet<usize>>,
}

impl Catalogs for Trees {
    async fn open_answer(
        &self,
        backend: usize,
        ask: InternalRequest,
    ) -> Result<AnswerStream<'_>, Failure> {
        self.asked.lock().unwrap().insert(backend);
        let at: Vec<&str> = ask.identifier.names().collect();
        let below = self.tables[backend].iter().filter(|id| id.starts_with(&at));
        let right_below = |id: &&Vec<&'static str>| id.len() == at.len() + 1;
        let names: BTreeSet<String> = match ask.operation {
            Operation::ListAllTables => below.map(|id| id.join("$")).collect(),
            Operation::ListTables => below
                .filter(right_below)
                .map(|id| id[at.len()].to_owned())
                .collect(),
            _ => below
                .filter(|id| !right_below(id))
                .map(|id| id[at.len()].to_owned())
                .collect(),
        };
        let field = if ask.operation == Operation::ListNamespaces {
            "namespaces"
        } else {
            "tables"
        };
        let value = |key| ask.query.iter().find(|(name, _)| *name == key);
        let number = |key| value(key).map(|(_, value)| value.parse::<usize>().unwrap());
        let (begin, limit) = (number("page_token").unwrap_or(0), number("limit"));
        let limit = limit.filter(|_| self.has_pages).unwrap_or(usize::MAX);
        let count = names.len();
        let names: Vec<_> = names.into_iter().skip(begin).take(limit).collect();
        let end = begin + names.len();
        let token = (end < count).then(|| end.to_string());
        let body = json!({ field: names, "page_token": token });
        Ok(answered(200, body.to_string()))
    }
}

/// A simple model of read permission: rules as lists of names, each with true if it allows the caller.
struct Model(Vec<(Vec<&'static str>, bool)>);

impl Model {
    fn reads(&self, id: &[&str]) -> bool {
        let covering = self.0.iter().filter(|rule| id.starts_with(&rule.0));
        covering
            .max_by_key(|rule| rule.0.len())
            .is_some_and(|rule| rule.1)
    }

    fn shows(&self, id: &[&str]) -> bool {
        let mut below = self.0.iter().filter(|rule| rule.0.starts_with(id));
        self.reads(id) || below.any(|rule| self.reads(&rule.0))
    }

    fn rights(&self) -> Rights {
        let rule = |(namespace, reads): &(Vec<&str>, bool)| AuthorizationRule {
            namespace: namespace.iter().map(|&name| name.to_owned()).collect(),
            read: match reads {
                true => Need::Scope("mine".into()),
                false => Need::Deny,
            },
            write: Need::Deny,
            unlisted: None,
        };
        let rules = Rules::new(&self.0.iter().map(rule).collect::<Vec<_>>()).unwrap();
        let caller = Principal::new(Identity {
            issuer: "https://one.test".into(),
            scopes: "mine".into(),
            ..Identity::default()
        });
        Rights::new(Arc::new(rules), caller)
    }
}

async fn list(
    routes: &Table,
    trees: &Trees,
    operation: Operation,
    level: &Identifier,
    query: &str,
    rights: Option<Rights>,
) -> (Vec<String>, Option<String>) {
    let request = Request {
        operation,
        id: level,
        query: Query::new(Some(query)),
        body: Bytes::new(),
        authority: Authority::Caller(None),
        context: Context::default(),
        origin: Origin::default(),
        log: None,
        rights,
    };
    let response = answer(routes, trees, &Names::default(), request)
        .await
        .unwrap();
    let body = response.into_body().collect_up_to(1 << 20).await.unwrap();
    let value: Value = serde_json::from_slice(&body).unwrap();
    let names = value.get("namespaces").or(value.get("tables")).unwrap();
    let names = serde_json::from_value(names.clone()).unwrap();
    (names, value["page_token"].as_str().map(str::to_owned))
}

/// Returns a whole listing, read in pages of `limit`, sorted. Checks that only the last page is shorter.
async fn pages(
    routes: &Table,
    trees: &Trees,
    operation: Operation,
    level: &Identifier,
    limit: usize,
    rights: &Rights,
) -> Vec<String> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let query = format!("limit={limit}{after}");
        let rights = Some(rights.clone());
        let (names, token) = list(routes, trees, operation, level, &query, rights).await;
        assert!(
            names.len() == limit || token.is_none(),
            "{names:?} and then more"
        );
        all.extend(names);
        match token {
            Some(token) => after = format!("&page_token={token}"),
            None => {
                all.sort();
                return all;
            }
        }
    }
}

fn world(dice: &mut Dice) -> (Table, Trees, Model) {
    let mut mounts: Vec<(Vec<&str>, usize, Vec<&str>)> = Vec::new();
    for _ in 0..=dice.below(4) {
        mounts.push((dice.namespace(2), dice.below(3), dice.namespace(1)));
    }
    let mounts: Vec<(&[&str], usize, &[&str])> = mounts
        .iter()
        .map(|(at, backend, there)| (&**at, *backend, &**there))
        .collect();
    let mut tables = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
    for _ in 0..dice.below(40) {
        let mut id = dice.namespace(3);
        id.push(["t1", "t2", "t3"][dice.below(3)]);
        tables[dice.below(3)].insert(id);
    }
    let mut model: Vec<(Vec<&str>, bool)> = Vec::new();
    for _ in 0..dice.below(7) {
        let mut names = dice.namespace(3);
        if dice.below(4) == 0 {
            names.push("t1");
        }
        if model.iter().all(|rule| rule.0 != names) {
            model.push((names, dice.below(2) == 0));
        }
    }
    let asked = Mutex::default();
    let trees = Trees {
        tables,
        has_pages: dice.below(2) == 0,
        asked,
    };
    (routes(&mounts), trees, Model(model))
}

#[tokio::test]
async fn what_is_shown_is_what_may_be_read() {
    use Operation::{ListAllTables, ListNamespaces, ListTables};
    let (mut listings, mut shown, mut hidden) = (0, 0, 0);
    for seed in 1..=300_u64 {
        let mut dice = Dice::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (routes, trees, model) = world(&mut dice);
        let rights = model.rights();
        let mut asked = vec![(ListAllTables, Vec::new())];
        for _ in 0..6 {
            let level = dice.namespace(3);
            asked.extend([(ListTables, level.clone()), (ListNamespaces, level)]);
        }
        for (operation, level) in asked {
            let at = id(&level);
            let (all, _) = list(&routes, &trees, operation, &at, "", None).await;
            let sees = |name: &&String| {
                let below: Vec<&str> = name.split('$').collect();
                let id = [&level[..], &below].concat();
                match operation {
                    ListNamespaces => model.shows(&id),
                    _ => model.reads(&id),
                }
            };
            let expected: Vec<String> = all.iter().filter(sees).cloned().collect();
            (shown, hidden) = (shown + expected.len(), hidden + all.len() - expected.len());
            trees.asked.lock().unwrap().clear();
            for limit in [1, 2, 3, 1000] {
                let found = pages(&routes, &trees, operation, &at, limit, &rights).await;
                assert_eq!(
                    found, expected,
                    "seed {seed}: {operation:?} {level:?} by {limit}, {:?}",
                    model.0
                );
                listings += 1;
            }
            let nothing = !model.shows(&level);
            let asked = trees.asked.lock().unwrap();
            assert!(
                !nothing || asked.is_empty(),
                "seed {seed}: {operation:?} {level:?}"
            );
            assert_eq!(
                model.reads(&level),
                rights.decide(Access::Read, &at).is_ok()
            );
        }
    }
    println!("{listings} listings over 300 trees: {shown} names shown, {hidden} not");
    assert!(shown > 1000 && hidden > 1000);
}
