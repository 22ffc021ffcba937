//! The data of a figure: for each series and place on the x axis the mean of the runs.
//!
//! Owns: which runs count, and the data as CSV. Must not know: what was measured.

use serde::Serialize;
use std::fmt::Write;

/// The first line of the CSV.
const HEADER: &str = "series,x,mean,lowest,highest,runs";

/// One point of a figure.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Point {
    /// Which line of the figure.
    pub series: String,
    /// Where on the x axis, in the figure's unit.
    pub x: u64,
    /// Mean of the runs that count, in the figure's unit.
    pub mean: f64,
    /// The lowest of them.
    pub lowest: f64,
    /// The highest of them.
    pub highest: f64,
    /// How many count.
    pub runs: usize,
}

/// The points of a figure, in the order in which they were first measured.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
#[serde(transparent)]
pub struct Data {
    /// The points.
    pub points: Vec<Point>,
}

/// A claim needs a point that was not measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing(pub String);

impl Data {
    /// The mean of a series at `x`.
    pub fn at(&self, series: &str, x: u64) -> Result<f64, Missing> {
        let is_it = |point: &&Point| point.series == series && point.x == x;
        let found = self.points.iter().find(is_it).map(|point| point.mean);
        found.ok_or_else(|| Missing(format!("no figure of {series} at {x}")))
    }

    /// The points of a series from `least` to `most` on the x axis; at least one.
    pub fn between(&self, series: &str, least: u64, most: u64) -> Result<Vec<&Point>, Missing> {
        let inside = |point: &&Point| point.series == series && (least..=most).contains(&point.x);
        let found: Vec<&Point> = self.points.iter().filter(inside).collect();
        if found.is_empty() {
            return Err(Missing(format!(
                "no figure of {series} from {least} to {most}"
            )));
        }
        Ok(found)
    }

    /// The names of the series, in their order.
    pub fn series(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for point in &self.points {
            if !names.contains(&point.series.as_str()) {
                names.push(&point.series);
            }
        }
        names
    }

    /// The data as CSV, a line for each point.
    pub fn csv(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for point in &self.points {
            let Point {
                series,
                x,
                mean,
                lowest,
                highest,
                runs,
            } = point;
            let _ = writeln!(
                text,
                "{series},{x},{mean:.4},{lowest:.4},{highest:.4},{runs}"
            );
        }
        text
    }

    /// The inverse of [`Data::csv`].
    ///
    /// # Errors
    /// The first line that is something else, counted from 1.
    pub fn parse(text: &str) -> Result<Data, String> {
        let mut lines = text.lines();
        if lines.next() != Some(HEADER) {
            return Err(format!("line 1 is not '{HEADER}'"));
        }
        let points = lines.enumerate().filter(|(_, line)| !line.is_empty());
        let parsed = points.map(|(index, line)| {
            point(line).ok_or_else(|| format!("line {} is no point: {line}", index + 2))
        });
        Ok(Data {
            points: parsed.collect::<Result<_, _>>()?,
        })
    }
}

fn point(line: &str) -> Option<Point> {
    let cells: Vec<&str> = line.split(',').collect();
    let &[series, x, mean, lowest, highest, runs] = cells.as_slice() else {
        return None;
    };
    let figure = |text: &str| text.parse().ok().filter(|figure: &f64| figure.is_finite());
    Some(Point {
        series: series.to_owned(),
        x: x.parse().ok()?,
        mean: figure(mean)?,
        lowest: figure(lowest)?,
        highest: figure(highest)?,
        runs: runs.parse().ok()?,
    })
}

/// What each run found.
#[derive(Clone, Default, Debug)]
pub struct Samples {
    found: Vec<(String, u64, Vec<f64>)>,
}

impl Samples {
    /// A run found this.
    pub fn add(&mut self, series: &str, x: u64, value: f64) {
        let known = self.found.iter_mut();
        let mut same = known.filter(|(name, at, _)| name == series && *at == x);
        match same.next() {
            Some((_, _, values)) => values.push(value),
            None => self.found.push((series.to_owned(), x, vec![value])),
        }
    }

    /// The figure's data. Of three runs or more the highest and the lowest are dropped (papers/004,
    /// section 6.1).
    pub fn data(self) -> Data {
        let points = self.found.into_iter().map(|(series, x, mut values)| {
            values.sort_by(f64::total_cmp);
            let dropped = usize::from(values.len() >= 3);
            let kept = &values[dropped..values.len() - dropped];
            Point {
                series,
                x,
                mean: kept.iter().sum::<f64>() / kept.len() as f64,
                lowest: kept[0],
                highest: kept[kept.len() - 1],
                runs: kept.len(),
            }
        });
        Data {
            points: points.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Data {
        let mut samples = Samples::default();
        for value in values {
            samples.add("ring", 64, *value);
        }
        samples.data()
    }

    #[test]
    fn the_highest_and_the_lowest_run_are_dropped() {
        let data = samples(&[5.0, 1000.0, 7.0, 0.001, 6.0]);
        let point = &data.points[0];
        assert_eq!((point.lowest, point.mean, point.highest), (5.0, 6.0, 7.0));
        assert_eq!(point.runs, 3);
        assert_eq!(samples(&[4.0, 6.0]).at("ring", 64), Ok(5.0));
        assert!(data.at("ring", 65).is_err() && data.at("nic", 64).is_err());
    }

    #[test]
    fn csv_reads_back_as_written() {
        let mut samples = Samples::default();
        for (series, x, value) in [("credit 8x8K", 1, 0.5), ("nic", 1 << 40, 1e12)] {
            samples.add(series, x, value);
        }
        let data = samples.data();
        assert_eq!(Data::parse(&data.csv()), Ok(data.clone()));
        assert_eq!(data.series(), ["credit 8x8K", "nic"]);
        let wrong = [
            "",
            "series\n",
            "series,x,mean,lowest,highest,runs\nring,1,2,3\n",
        ];
        assert!(wrong.iter().all(|text| Data::parse(text).is_err()));
        let nan = format!("{HEADER}\nring,1,NaN,1,1,1\n");
        assert!(Data::parse(&nan).is_err());
    }
}
