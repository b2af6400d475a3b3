//! Operations on the names of tables and the places that they lead to.

use nsgate::protocol::operation::Operation;

use super::question::Question;
use super::{Catalog, Change, Onto, Place, Reply, missing, refusal};

impl Catalog {
    pub(super) fn about_names(&mut self, question: &Question) -> Result<Reply, Reply> {
        use Operation as Op;
        let table = &question.table;
        match question.operation {
            Op::DescribeTable => self.describe_table(question),
            Op::TableExists => self.place(table).map(done).ok_or_else(|| missing(table)),
            Op::NamespaceExists => Ok(done(0)),
            Op::RegisterTable => self.register(question),
            Op::DeregisterTable => {
                let place = self.place(table).ok_or_else(|| missing(table))?;
                self.name(table, None);
                Ok(self.located(place))
            }
            Op::DropTable => self.drop_table(table),
            Op::DeclareTable => {
                let _ = question.asked()?;
                self.is_free(table)?;
                let place = self.new_place(false);
                self.name(table, Some(place));
                Ok(self.located(place))
            }
            Op::CreateTable => {
                self.is_free(table)?;
                let place = self.new_place(false);
                self.name(table, Some(place));
                let manifest = self.by_the_catalog(question.author());
                self.write(self.spot(place, false), 1, manifest, Onto::Nothing);
                Ok(self.located(place))
            }
            Op::RenameTable => self.rename(question),
            _ => Err(refusal(406, 0, "Not supported")),
        }
    }

    pub(super) fn new_place(&mut self, branch: bool) -> usize {
        let place = Place {
            branch: branch.then(Default::default),
            ..Place::default()
        };
        self.places.push(Some(place));
        self.places.len() - 1
    }

    /// The location of a place.
    pub fn location(&self, place: usize) -> String {
        format!("mem://c{}/p{place}", self.number)
    }

    /// Describes a table; with `load_detailed_metadata` the answer includes the latest version.
    fn describe_table(&self, question: &Question) -> Result<Reply, Reply> {
        let _ = question.asked()?;
        let (spot, versions) = self.table(&question.table, None)?;
        let mut reply = self.located(spot.place);
        if question.parameter("load_detailed_metadata") == Some("true")
            && let Some((number, version)) = versions.last_key_value()
        {
            let shown = self.created(spot, *number, version).body;
            reply.body.pop();
            reply.body.push(',');
            reply.body.push_str(&shown[1..]);
        }
        Ok(reply)
    }

    fn register(&mut self, question: &Question) -> Result<Reply, Reply> {
        let asked = question.asked()?;
        let location = asked.location.unwrap_or_default();
        let found = (0..self.places.len()).find(|place| {
            let name = format!("p{place}");
            location == name || (!self.ways.relative && location == self.location(*place))
        });
        let Some(place) = found.filter(|place| self.places[*place].is_some()) else {
            return Err(refusal(400, 13, "the location is not below the root"));
        };
        self.is_free(&question.table)?;
        self.name(&question.table, Some(place));
        Ok(self.located(place))
    }

    /// Removes the name and its place with all versions; other names of the place then lead
    /// nowhere.
    fn drop_table(&mut self, table: &str) -> Result<Reply, Reply> {
        let place = self.place(table).ok_or_else(|| missing(table))?;
        self.name(table, None);
        for branch in [false, true] {
            let spot = self.spot(place, branch);
            let versions: Vec<u64> = self.versions(spot).into_keys().collect();
            for version in versions {
                self.take_away(spot, version);
            }
        }
        self.places[place] = None;
        Ok(self.located(place))
    }

    fn rename(&mut self, question: &Question) -> Result<Reply, Reply> {
        if !self.ways.renames {
            let message = "Not supported: rename_table not implemented";
            return Err(refusal(500, 18, message));
        }
        let asked = question.asked()?;
        let table = &question.table;
        let place = self.place(table).ok_or_else(|| missing(table))?;
        let mut names: Vec<&str> = table.split('$').collect();
        names.pop();
        let mut new = match &asked.new_namespace_id {
            Some(names) => names.iter().map(String::as_str).collect(),
            None => names,
        };
        new.extend(asked.new_table_name.as_deref());
        let new = new.join("$");
        self.is_free(&new)?;
        self.name(table, None);
        self.name(&new, Some(place));
        Ok(done(place))
    }

    fn is_free(&self, table: &str) -> Result<(), Reply> {
        match self.place(table) {
            Some(_) => Err(refusal(409, 5, "there is such a table")),
            None => Ok(()),
        }
    }

    fn name(&mut self, table: &str, to: Option<usize>) {
        let from = match to {
            Some(place) => self.names.insert(table.to_owned(), place),
            None => self.names.remove(table),
        };
        self.changes.push(Change::Named {
            name: table.to_owned(),
            from,
            to,
        });
    }

    fn located(&self, place: usize) -> Reply {
        let location = self.location(place);
        Reply {
            status: 200,
            body: format!("{{\"location\":\"{location}\",\"place\":{place}}}"),
        }
    }
}

fn done(_: usize) -> Reply {
    Reply {
        status: 200,
        body: "{}".into(),
    }
}
