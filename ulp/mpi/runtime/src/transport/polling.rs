//! Which channels are looked at, and when.
//!
//! Owns: the few that had a message lately. Must not know: what a channel is.

/// Which channels are looked at: the few that had a message lately in each round, one of the others
/// in turn.
pub struct Polling {
    hot: [u32; HOT],
    used: [bool; HOT],
    count: usize,
    turn: u32,
    rounds: u32,
    straight: u32,
}

/// Of so many receives that could go straight one makes a round, however much lies ready for the
/// others.
const STRAIGHT: u32 = 64;
/// Channels that are looked at in each round.
const HOT: usize = 8;
/// After so many rounds without a message a channel is looked at in turn only.
const COOL: u32 = 1024;

impl Polling {
    /// None is.
    pub(crate) fn new() -> Self {
        Self {
            hot: [0; HOT],
            used: [false; HOT],
            count: 0,
            turn: 0,
            rounds: 0,
            straight: 0,
        }
    }

    /// A receive could do without a round: false where it is one's time.
    #[inline]
    pub fn may_wait(&mut self) -> bool {
        self.straight = self.straight.wrapping_add(1);
        !self.straight.is_multiple_of(STRAIGHT)
    }

    /// The channel that [`Polling::next`] has just named has its turn once more.
    pub fn again(&mut self, channels: usize) {
        self.turn = match self.turn {
            0 => u32::try_from(channels).unwrap_or(1).saturating_sub(1),
            turn => turn - 1,
        };
    }

    /// The channels of each round.
    #[inline]
    pub fn hot(&self, place: usize) -> Option<u32> {
        (place < self.count).then(|| self.hot[place])
    }

    /// A message has come by the channel at `place`.
    #[inline]
    pub fn hit(&mut self, place: usize) {
        self.used[place] = true;
    }

    /// A message has come by `channel`, which somebody has looked at by himself.
    #[inline]
    pub fn touch(&mut self, channel: u32) {
        if self.count != 0 && self.hot[0] == channel {
            self.used[0] = true;
            return;
        }
        match self.hot[..self.count]
            .iter()
            .position(|hot| *hot == channel)
        {
            Some(place) => self.used[place] = true,
            None => self.warm(channel),
        }
    }

    /// A message has come by `channel`, which was looked at in turn.
    pub fn warm(&mut self, channel: u32) {
        if self.hot[..self.count].contains(&channel) {
            return;
        }
        let place = if self.count < HOT {
            self.count += 1;
            self.count - 1
        } else {
            self.used.iter().position(|used| !used).unwrap_or(0)
        };
        self.hot[place] = channel;
        self.used[place] = true;
    }

    /// Ends a round: which of `channels` channels has its turn.
    #[inline]
    pub fn next(&mut self, channels: usize) -> Option<u32> {
        self.rounds += 1;
        if self.rounds == COOL {
            self.cool();
        }
        if channels <= self.count {
            return None;
        }
        self.turn = if self.turn as usize + 1 < channels {
            self.turn + 1
        } else {
            0
        };
        Some(self.turn)
    }

    #[cold]
    fn cool(&mut self) {
        self.rounds = 0;
        let mut kept = 0;
        for place in 0..self.count {
            if self.used[place] {
                self.hot[kept] = self.hot[place];
                kept += 1;
            }
        }
        self.count = kept;
        self.used = [false; HOT];
    }
}

#[cfg(test)]
mod tests {
    use super::{COOL, HOT, Polling, STRAIGHT};

    #[test]
    fn a_round_looks_at_what_is_in_use_and_at_one_of_the_others() {
        const CHANNELS: usize = 65;
        let mut polling = Polling::new();
        polling.warm(3);
        let mut looks = [0; CHANNELS];
        for _ in 0..CHANNELS * 10 {
            assert_eq!(
                (polling.hot(0), polling.hot(1)),
                (Some(3), None),
                "idle ones cost nothing here"
            );
            polling.hit(0);
            let turn = polling.next(CHANNELS).expect("one of the others");
            looks[turn as usize] += 1;
        }
        assert!(looks.iter().all(|count| *count == 10), "{looks:?}");
    }

    #[test]
    fn receives_that_go_straight_make_a_round_now_and_then() {
        let mut polling = Polling::new();
        let rounds = (0..10 * STRAIGHT).filter(|_| !polling.may_wait()).count();
        assert_eq!(rounds, 10);
    }

    #[test]
    fn a_channel_whose_turn_is_given_back_is_the_next_one() {
        let mut polling = Polling::new();
        for channels in [1, 2, 3, HOT + 5] {
            for _ in 0..2 * COOL {
                let named = polling.next(channels);
                polling.again(channels);
                assert_eq!(polling.next(channels), named, "{channels} channels");
            }
        }
    }
}
