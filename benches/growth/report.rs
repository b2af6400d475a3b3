//! The lines that a measurement prints, and the table of all of them at the end.

use std::sync::Mutex;

/// The measurement that runs, and the rows of the table.
static REPORT: Mutex<(&str, Vec<String>)> = Mutex::new(("", Vec::new()));

/// A figure over sizes.
pub struct Row<'a> {
    pub what: &'a str,
    pub sizes: String,
    pub figures: String,
    pub exponent: String,
    pub bound: String,
    pub is_kept: bool,
}

/// Begins a measurement.
pub fn begin(name: &'static str) {
    println!("[{name}]");
    REPORT.lock().unwrap().0 = name;
}

impl Row<'_> {
    pub fn verdict(&self) -> &'static str {
        if self.is_kept { "kept" } else { "**missed**" }
    }

    /// Adds the row to the table.
    pub fn note(self) {
        let verdict = self.verdict();
        let Self {
            what,
            sizes,
            figures,
            exponent,
            bound,
            ..
        } = self;
        let (name, rows) = &mut *REPORT.lock().unwrap();
        rows.push(format!(
            "| `{name}` | {what} | {sizes} | {figures} | {exponent} | {bound} | {verdict} |"
        ));
    }
}

/// Prints the table, as benches/README.md has it.
pub fn print_table() {
    println!("\n| name | what | sizes | figures | exponent | bound | |");
    println!("|---|---|---|---|---|---|---|");
    for row in &REPORT.lock().unwrap().1 {
        println!("{row}");
    }
}

/// Returns a number with commas between thousands.
pub fn with_commas(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a figure with as many decimals as matter.
pub fn rounded(figure: f64) -> String {
    match figure.abs() {
        10_000.0.. => with_commas(figure.round() as usize),
        100.0.. => format!("{figure:.0}"),
        10.0.. => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}
