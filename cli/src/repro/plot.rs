//! A plot of a figure's data for a terminal: a letter for each series on a grid.
//!
//! Owns: the grid and its axes. Must not know: what is plotted.

use super::data::Data;
use super::registry::Axes;

const COLUMNS: usize = 64;
const ROWS: usize = 16;
/// Where several series meet.
const SEVERAL: char = '*';

/// An axis from one value to another.
struct Scale {
    low: f64,
    high: f64,
    is_logarithmic: bool,
}

impl Scale {
    fn around(values: impl Iterator<Item = f64> + Clone, is_logarithmic: bool) -> Self {
        let usable = values.filter(|value| !is_logarithmic || *value > 0.0);
        let low = usable.clone().fold(f64::INFINITY, f64::min);
        let high = usable.fold(f64::NEG_INFINITY, f64::max);
        let low = if is_logarithmic { low } else { low.min(0.0) };
        let is_flat = high <= low || !low.is_finite();
        Scale {
            low: if low.is_finite() { low } else { 1.0 },
            high: if is_flat { low.max(1.0) * 2.0 } else { high },
            is_logarithmic,
        }
    }

    /// Which of `count` places a value has.
    fn place(&self, value: f64, count: usize) -> usize {
        let share = if self.is_logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        (share.clamp(0.0, 1.0) * (count - 1) as f64).round() as usize
    }

    /// The value in the middle of the axis.
    fn middle(&self) -> f64 {
        if self.is_logarithmic {
            (self.low * self.high).sqrt()
        } else {
            f64::midpoint(self.low, self.high)
        }
    }
}

/// The letters of the series: the first of a name that is free.
fn letters(series: &[&str]) -> Vec<char> {
    let mut taken = Vec::new();
    for name in series {
        let lower = name.chars().filter(char::is_ascii_alphabetic);
        let upper = lower.clone().map(|letter| letter.to_ascii_uppercase());
        let free = lower.chain(upper).find(|letter| !taken.contains(letter));
        taken.push(free.unwrap_or('?'));
    }
    taken
}

/// The plot, as lines.
pub fn draw(data: &Data, axes: &Axes) -> String {
    let drawn = data
        .points
        .iter()
        .filter(|point| (axes.draws)(&point.series));
    let data = Data {
        points: drawn.cloned().collect(),
    };
    let points = &data.points;
    let x = Scale::around(
        points.iter().map(|point| point.x as f64),
        axes.is_logarithmic,
    );
    let y = Scale::around(points.iter().map(|point| point.mean), axes.is_logarithmic);
    let series = data.series();
    let letters = letters(&series);
    let mut grid = [[' '; COLUMNS]; ROWS];
    for point in points {
        let index = series.iter().position(|name| *name == point.series);
        let letter = index.map_or('?', |index| letters[index]);
        let row = ROWS - 1 - y.place(point.mean, ROWS);
        let cell = &mut grid[row][x.place(point.x as f64, COLUMNS)];
        *cell = match *cell {
            ' ' => letter,
            same if same == letter => letter,
            _ => SEVERAL,
        };
    }
    let mut lines = vec![axes.y.to_owned()];
    for (index, row) in grid.iter().enumerate() {
        let label = match index {
            0 => number(y.high),
            index if index == ROWS / 2 => number(y.middle()),
            index if index == ROWS - 1 => number(y.low),
            _ => String::new(),
        };
        let cells: String = row.iter().collect();
        lines.push(format!("{label:>9} |{}", cells.trim_end()));
    }
    let (low, high) = (number(x.low), number(x.high));
    lines.push(format!("{:>9} +{}", "", "-".repeat(COLUMNS)));
    lines.push(format!("{:>11}{low:<32}{high:>32}  {}", "", axes.x));
    let names = series.iter().zip(&letters);
    let legend: Vec<String> = names
        .map(|(name, letter)| format!("{letter} {name}"))
        .collect();
    lines.push(format!(
        "{:>11}{}   {SEVERAL} several",
        "",
        legend.join("   ")
    ));
    lines.join("\n")
}

/// A value with about three digits.
pub fn number(value: f64) -> String {
    match value {
        value if value.abs() >= 1000.0 => format!("{value:.0}"),
        value if value.abs() >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repro::data::Samples;

    const AXES: Axes = Axes {
        x: "bytes",
        y: "MB/s",
        is_logarithmic: true,
        draws: |series| series != "hidden",
    };

    #[test]
    fn each_series_is_where_its_values_are() {
        let mut samples = Samples::default();
        for (series, x, value) in [
            ("credit", 1, 1.0),
            ("credit", 1024, 10.0),
            ("ring", 1024, 100.0),
            ("hidden", 1 << 30, 1e9),
        ] {
            samples.add(series, x, value);
        }
        let drawn = draw(&samples.data(), &AXES);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[1], format!("{:>9} |{}r", "100.0", " ".repeat(63)));
        assert_eq!(lines[16], format!("{:>9} |c", "1.00"));
        assert!(
            lines[9].ends_with('c') || lines[8].ends_with('c'),
            "{drawn}"
        );
        assert!(drawn.contains("c credit   r ring"));
    }

    #[test]
    fn a_plot_of_nothing_and_of_one_point_does_not_fail() {
        assert!(draw(&Data::default(), &AXES).contains("MB/s"));
        let mut samples = Samples::default();
        samples.add("nic", 5, 0.0);
        assert!(draw(&samples.data(), &AXES).contains("n nic"));
    }

    #[test]
    fn series_that_begin_alike_have_letters_of_their_own() {
        let names = ["credit 8x8K", "ring 8x8K", "credit 8x32K", "ring 8x32K"];
        assert_eq!(letters(&names), ['c', 'r', 'e', 'i']);
    }
}
