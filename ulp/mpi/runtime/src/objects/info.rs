//! Info objects: pairs of strings in the order in which their keys were first set.

use crate::constants::{
    MPI_ERR_INFO_KEY, MPI_ERR_INFO_NOKEY, MPI_ERR_INFO_VALUE, MPI_MAX_INFO_KEY, MPI_MAX_INFO_VAL,
};
use crate::errors::{MpiError, Outcome};

/// An info object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info(Vec<(String, String)>);

impl Info {
    /// How many keys it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key at a place.
    pub fn key(&self, at: usize) -> Option<&str> {
        self.0.get(at).map(|(key, _)| key.as_str())
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Outcome<Option<&str>> {
        check_key(key)?;
        let found = self.0.iter().find(|(one, _)| one == key);
        Ok(found.map(|(_, value)| value.as_str()))
    }

    /// Sets a key, whether it is there or not.
    pub fn set(&mut self, key: &str, value: &str) -> Outcome {
        check_key(key)?;
        if value.len() >= MPI_MAX_INFO_VAL as usize {
            return Err(MpiError::with(
                MPI_ERR_INFO_VALUE,
                format!("{} bytes", value.len()),
            ));
        }
        match self.0.iter_mut().find(|(one, _)| one == key) {
            Some((_, old)) => value.clone_into(old),
            None => self.0.push((key.to_owned(), value.to_owned())),
        }
        Ok(())
    }

    /// Takes a key out.
    pub fn delete(&mut self, key: &str) -> Outcome {
        check_key(key)?;
        let at = self.0.iter().position(|(one, _)| one == key);
        let at = at.ok_or_else(|| MpiError::with(MPI_ERR_INFO_NOKEY, format!("\"{key}\"")))?;
        self.0.remove(at);
        Ok(())
    }

    /// The pairs, in order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

fn check_key(key: &str) -> Outcome {
    if key.is_empty() || key.len() >= MPI_MAX_INFO_KEY as usize {
        return Err(MpiError::with(
            MPI_ERR_INFO_KEY,
            format!("{} bytes", key.len()),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_places() {
        let mut info = Info::default();
        for (key, value) in [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4")] {
            info.set(key, value).expect("short");
        }
        assert_eq!(
            info.pairs().collect::<Vec<_>>(),
            [("a", "3"), ("b", "2"), ("c", "4")]
        );
        info.delete("b").expect("there");
        assert_eq!((info.len(), info.key(1), info.key(2)), (2, Some("c"), None));
        assert_eq!(
            info.delete("b").expect_err("gone").class,
            MPI_ERR_INFO_NOKEY
        );
        assert_eq!(info.get("b"), Ok(None));
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let mut info = Info::default();
        let (key, value) = ("k".repeat(255), "v".repeat(1023));
        info.set(&key, &value).expect("just short enough");
        assert_eq!(info.get(&key), Ok(Some(value.as_str())));
        let class = |outcome: Outcome| outcome.expect_err("too long").class;
        assert_eq!(class(info.set(&"k".repeat(256), "")), MPI_ERR_INFO_KEY);
        assert_eq!(class(info.set("", "")), MPI_ERR_INFO_KEY);
        assert_eq!(class(info.set("k", &"v".repeat(1024))), MPI_ERR_INFO_VALUE);
    }
}
