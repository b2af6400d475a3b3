//! Sends creates to a catalog: one entry, or several that the catalog creates all or nothing.

use super::answers::{created, described, described_table, described_together, is_unsupported};
use super::{CallerContext, CatalogDescription, silent, unreachable};
use crate::backend::{Backend, Failure, InternalAnswer};
use crate::batch::log::Action;
use crate::batch::plan::Entry;
use crate::batch::step::Refusal;
use crate::protocol::batch::understood;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;

/// The most bytes of a catalog's description of one object. The batch log keeps it, for the answer and its repeats.
const MOST_DESCRIBED: usize = 64 << 10;

/// The outcome of a create.
#[derive(Clone, Debug)]
pub enum CreateOutcome {
    /// The catalog answered that it created the object.
    Yes(CatalogDescription),
    /// The request was not sent, or the catalog was not reached.
    Unsent(Refusal),
    /// The catalog refused definitely.
    Refused(Refusal),
    /// The catalog created an object, but not the requested one.
    Spoiled(Refusal, Option<CatalogDescription>),
    /// The catalog answered that it created the version, but shows one of another size, which may be another writer's.
    Strange(Refusal),
    /// The catalog answered 409: the version exists, from an earlier attempt of this batch or from another writer.
    Conflicted(Refusal),
    /// The catalog may have acted. The refusal says why it is not known, where somebody can do something about it.
    Lost(Option<Refusal>),
}

impl CreateOutcome {
    /// Returns the outcome, or [`Strange`](Self::Strange) if the created version has another size than the staged one, or
    /// [`Spoiled`](Self::Spoiled) if its description is too long for the batch log.
    fn of(self, entry: &Entry) -> Self {
        if let Self::Yes(described) = &self
            && described.raw.get().len() > MOST_DESCRIBED
        {
            let length = described.raw.get().len();
            let refusal = Refusal::unavailable(format!(
                "the catalog describes what it created in {length} bytes; a batch keeps at most {MOST_DESCRIBED}"
            ));
            return Self::Spoiled(refusal, Some(described.clone()));
        }
        let Action::CreateVersion {
            version,
            manifest_size: Some(staged),
            ..
        } = entry.action
        else {
            return self;
        };
        match &self {
            Self::Yes(described)
                if let Some(shown) = described
                    .proof
                    .manifest_size
                    .filter(|shown| *shown != staged) =>
            {
                let refusal = Refusal::conflict(format!(
                    "the catalog says that it created version {version}, but shows a manifest of {shown} bytes instead of {staged}: it may belong to another writer. An operator must decide: run `nsgate batches list`"
                ));
                Self::Strange(refusal)
            }
            _ => self,
        }
    }
}

/// Sends the create of an entry.
pub async fn create(entry: &Entry, caller: &CallerContext) -> CreateOutcome {
    let backend = &entry.backend;
    let operation = match entry.action {
        Action::Declare { .. } => Operation::DeclareTable,
        Action::Register { .. } => Operation::RegisterTable,
        _ => Operation::CreateTableVersion,
    };
    let mut ask = caller.ask(operation, &entry.line.table.table);
    ask.body = Some(entry.body.clone());
    match backend.ask(ask).await {
        Ok(answer) => {
            let described = match entry.version() {
                Some(version) => described(version, &answer),
                None => described_table(&answer, backend.sets_managed_versioning()),
            };
            created(backend.name(), described, &answer).of(entry)
        }
        Err(failure) if !failure.may_have_acted() => {
            CreateOutcome::Unsent(unreachable(backend, &failure))
        }
        Err(failure) => CreateOutcome::Lost(Some(silent(backend, &failure))),
    }
}

/// Sends the creates of several entries as one batch-create, which the catalog carries out all or nothing. `None` if
/// the catalog has no such operation.
pub async fn create_together(
    entries: &[&Entry],
    caller: &CallerContext,
) -> Option<Vec<CreateOutcome>> {
    let backend = &entries[0].backend;
    let all = |created: CreateOutcome| Some(vec![created; entries.len()]);
    let answer = match grouped(backend, entries, caller).await {
        Ok(answer) => answer,
        Err(failure) if !failure.may_have_acted() => {
            return all(CreateOutcome::Unsent(unreachable(backend, &failure)));
        }
        Err(failure) => return all(CreateOutcome::Lost(Some(silent(backend, &failure)))),
    };
    if is_unsupported(answer.status, &answer.body) {
        return None;
    }
    if !answer.status.is_success() {
        return all(created(backend.name(), None, &answer));
    }
    let versions = entries.iter().filter_map(|entry| entry.version());
    Some(described_together(versions, &answer).map_or(
        vec![CreateOutcome::Lost(None); entries.len()],
        |described| {
            let made = described.into_iter().map(CreateOutcome::Yes);
            made.zip(entries)
                .map(|(made, entry)| made.of(entry))
                .collect()
        },
    ))
}

/// Sends a catalog's own batch-create.
async fn grouped(
    backend: &Backend,
    entries: &[&Entry],
    caller: &CallerContext,
) -> Result<InternalAnswer, Failure> {
    let mut body = b"{\"entries\":[".to_vec();
    for (index, entry) in entries.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&understood(&entry.body));
    }
    body.extend_from_slice(b"]}");
    let mut ask = caller.ask(Operation::BatchCreateTableVersions, &Identifier::root());
    ask.body = Some(body.into());
    backend.ask(ask).await
}
