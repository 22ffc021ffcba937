use super::*;
use crate::client::Pmi;
use crate::pmi::Version;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

fn server(ranks: u32) -> Server {
    Server::new(Job {
        name: "kvs_7".to_owned(),
        programs: (0..ranks).map(|rank| rank.min(1)).collect(),
        universe: 8,
        hosts: 1,
    })
}

impl Server {
    /// What is said to whom after a line of a rank's.
    fn said(&mut self, rank: u32, line: &str) -> Vec<(u32, String)> {
        let whole = format!("{line}\n");
        self.handle_bytes(rank, whole.as_bytes()).expect("short");
        std::iter::from_fn(|| self.poll_transmit())
            .map(|(rank, bytes)| (rank, String::from_utf8(bytes).expect("text")))
            .collect()
    }

    /// The one answer to a line of a rank's.
    fn answer_to(&mut self, rank: u32, line: &str) -> String {
        let mut said = self.said(rank, line);
        let (whom, text) = said.pop().expect("an answer");
        assert!(said.is_empty() && whom == rank, "{line}: {said:?}");
        text.strip_suffix('\n').expect("a line").to_owned()
    }
}

#[test]
fn a_rank_learns_who_it_is() {
    let mut server = server(3);
    assert_eq!(server.stage(2), Stage::New);
    for (line, answer) in [
        (
            "cmd=init pmi_version=1 pmi_subversion=1",
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
        ),
        (
            "cmd=get_maxes",
            "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024",
        ),
        ("cmd=get_appnum", "cmd=appnum rc=0 appnum=1"),
        ("cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=kvs_7"),
        ("cmd=get_universe_size", "cmd=universe_size rc=0 size=8"),
        (
            "cmd=get kvsname=kvs_7 key=PMI_process_mapping",
            "cmd=get_result rc=0 msg=success value=(vector,(0,1,3))",
        ),
    ] {
        assert_eq!(server.answer_to(2, line), answer);
    }
    assert_eq!(server.stage(2), Stage::Begun);
    let who: Vec<String> = server
        .said(2, "cmd=initack pmiid=2")
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    let set = "cmd=initack rc=0\ncmd=set size=3\ncmd=set rank=2\ncmd=set debug=0\n";
    assert_eq!(who.concat(), set);
    assert_eq!(server.answer_to(2, "cmd=finalize"), "cmd=finalize_ack rc=0");
    assert_eq!(server.stage(2), Stage::Finalized);
}

#[test]
fn another_version_is_refused_with_the_one_that_is_spoken() {
    let mut server = server(1);
    let answer = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1";
    for version in [
        "pmi_version=2 pmi_subversion=0",
        "pmi_version=1 pmi_subversion=2",
        "",
    ] {
        assert_eq!(server.answer_to(0, &format!("cmd=init {version}")), answer);
    }
    assert_eq!(server.stage(0), Stage::New);
}

#[test]
fn ranks_on_several_hosts_are_dealt_to_them_in_turn() {
    let mut server = Server::new(Job {
        hosts: 2,
        ..server(4).job
    });
    let mapping = server.answer_to(0, "cmd=get kvsname=kvs_7 key=PMI_process_mapping");
    assert!(mapping.ends_with(" value=(vector,(0,2,1))"), "{mapping}");
}

#[test]
fn what_one_rank_puts_another_gets() {
    let mut server = server(2);
    let put = |server: &mut Server, words: &str| server.answer_to(0, &format!("cmd=put {words}"));
    let get = |server: &mut Server, key: &str| {
        server.answer_to(1, &format!("cmd=get kvsname=kvs_7 key={key}"))
    };
    let good = "cmd=put_result rc=0 msg=success";
    assert_eq!(put(&mut server, "kvsname=kvs_7 key=a value=x=1;2 3"), good);
    assert_eq!(
        get(&mut server, "a"),
        "cmd=get_result rc=0 msg=success value=x=1;2 3"
    );
    assert_eq!(put(&mut server, "kvsname=kvs_7 key=a value="), good);
    assert_eq!(
        get(&mut server, "a"),
        "cmd=get_result rc=0 msg=success value="
    );
    let none = "cmd=get_result rc=-1 msg=key_b_c_not_found value=unknown";
    assert_eq!(get(&mut server, "b=c"), none);
    let other = server.answer_to(1, "cmd=get kvsname=kvs_8 key=a");
    assert!(other.contains("rc=-1 msg=no_such_kvsname"), "{other}");
}

#[test]
fn keys_are_listed_in_the_order_in_which_they_were_put() {
    let mut server = server(1);
    for key in ["z", "a", "z"] {
        server.answer_to(
            0,
            &format!("cmd=put kvsname=kvs_7 key={key} value=of-{key}"),
        );
    }
    let mut at = "1".to_owned();
    let mut seen = Vec::new();
    loop {
        let line = format!("cmd=getbyidx kvsname=kvs_7 idx={at}");
        let said = Message::line(&server.answer_to(0, &line));
        if !said.is_good() {
            assert_eq!(said.get("reason"), Some("no_more_keyvals"));
            break;
        }
        let field = |name: &str| said.get(name).expect("a field").to_owned();
        seen.push((field("key"), field("val")));
        at = field("nextidx");
    }
    let pair = |key: &str| (key.to_owned(), format!("of-{key}"));
    assert_eq!(seen, [pair("z"), pair("a")]);
}

#[test]
fn keys_and_values_have_limits() {
    let mut server = server(2);
    let mut put = |rank: u32, key: &str, value: &str| {
        let said = server.answer_to(
            rank,
            &format!("cmd=put kvsname=kvs_7 key={key} value={value}"),
        );
        Message::line(&said)
            .get("msg")
            .expect("a reason")
            .to_owned()
    };
    let long = |length: usize| "k".repeat(length);
    assert_eq!(put(0, &long(MAX_KEY), &long(MAX_VALUE)), "success");
    assert_eq!(put(0, &long(MAX_KEY + 1), "x"), "key_too_long");
    assert_eq!(put(0, "x", &long(MAX_VALUE + 1)), "value_too_long");
    assert_eq!(put(0, "", "x"), "no_key");
    assert_eq!(put(0, MAPPING, "x"), "key_of_the_process_manager");
    for number in 1..MAX_KEYS {
        assert_eq!(put(0, &number.to_string(), "x"), "success");
    }
    assert_eq!(put(0, "more", "x"), "too_many_keys");
    assert_eq!(put(0, "1", "again"), "success", "it is no new key");
    assert_eq!(put(1, "more", "x"), "success", "another rank has room");
}

#[test]
fn a_barrier_lets_all_out_when_the_last_one_comes() {
    let mut server = server(3);
    for _ in 0..2 {
        assert_eq!(server.said(2, "cmd=barrier_in"), []);
        assert_eq!(server.said(0, "cmd=barrier_in"), []);
        let again = server.answer_to(0, "cmd=barrier_in");
        assert!(again.starts_with("cmd=barrier_out rc=-1"), "{again}");
        let out = server.said(1, "cmd=barrier_in");
        let expected: Vec<(u32, String)> = (0..3)
            .map(|rank| (rank, "cmd=barrier_out rc=0\n".to_owned()))
            .collect();
        assert_eq!(out, expected);
    }
    assert_eq!(server.poll_event(), None);
}

#[test]
fn a_barrier_that_cannot_be_completed_is_told_once() {
    let stranded = |ended, waiting| Some(Event::Stranded { waiting, ended });
    let mut server = server(3);
    server.handle_end(1);
    assert_eq!(server.poll_event(), None, "nobody waits");
    server.said(0, "cmd=barrier_in");
    assert_eq!(server.poll_event(), stranded(1, 0));
    server.said(2, "cmd=barrier_in");
    assert_eq!(server.poll_event(), None);
    let mut server = self::server(2);
    server.said(1, "cmd=barrier_in");
    server.handle_end(0);
    assert_eq!(server.poll_event(), stranded(0, 1));
    let mut server = self::server(2);
    server.said(1, "cmd=barrier_in");
    server.handle_end(1);
    assert_eq!(server.poll_event(), None, "who has ended does not wait");
}

#[test]
fn abort_ends_the_job_with_its_status() {
    let mut server = server(2);
    assert_eq!(server.said(1, "cmd=abort exitcode=7 msg=no mesh"), []);
    assert_eq!(server.said(0, "cmd=abort"), []);
    let event = |rank, code, text: &str| {
        let text = text.to_owned();
        Some(Event::Aborted { rank, code, text })
    };
    assert_eq!(server.poll_event(), event(1, 7, "no mesh"));
    assert_eq!(server.poll_event(), event(0, 1, ""));
    assert_eq!(server.poll_event(), None);
}

#[test]
fn what_is_not_offered_is_answered_with_an_error() {
    let mut server = server(1);
    for (line, answer) in [
        (
            "cmd=publish_name service=a port=b",
            "cmd=publish_result rc=-1 ",
        ),
        (
            "cmd=unpublish_name service=a",
            "cmd=unpublish_result rc=-1 ",
        ),
        ("cmd=lookup_name service=a", "cmd=lookup_result rc=-1 "),
        ("cmd=create_kvs", "cmd=create_kvs_result rc=-1 "),
        ("cmd=", "cmd=_result rc=-1 "),
        ("", "cmd=_result rc=-1 "),
        ("hello", "cmd=_result rc=-1 "),
    ] {
        let said = server.answer_to(0, line);
        assert!(said.starts_with(answer), "{line}: {said}");
    }
    server
        .handle_bytes(0, b"cmd=put key=\xff value=a\n")
        .expect("short");
    let (_, bytes) = server.poll_transmit().expect("an answer");
    assert_eq!(bytes, b"cmd=unknown_result rc=-1 msg=no_text\n");
}

#[test]
fn ranks_that_want_to_start_others_are_refused_after_their_last_command() {
    let mut server = server(1);
    for number in [1, 2] {
        let lines = format!(
            "mcmd=spawn\nnprocs=2\nexecname=a\ntotspawns=2\nspawnssofar={number}\narg1=cmd=abort\nargcnt=1"
        );
        assert_eq!(server.said(0, &lines), []);
        if number == 1 {
            assert_eq!(server.said(0, "endcmd"), []);
        }
    }
    let refused = server.answer_to(0, "endcmd");
    assert_eq!(refused, "cmd=spawn_result rc=-1 msg=not_supported");
    assert_eq!(server.poll_event(), None);
    assert_eq!(server.answer_to(0, "cmd=finalize"), "cmd=finalize_ack rc=0");
}

#[test]
fn a_line_comes_in_pieces_and_no_line_is_endless() {
    let mut server = server(1);
    for piece in ["cmd=get_", "appnum\ncmd=fin", "alize\n"] {
        server.handle_bytes(0, piece.as_bytes()).expect("short");
    }
    assert!(
        server
            .poll_transmit()
            .is_some_and(|(_, text)| text.starts_with(b"cmd=appnum "))
    );
    assert!(
        server
            .poll_transmit()
            .is_some_and(|(_, text)| text.starts_with(b"cmd=finalize_ack"))
    );
    assert_eq!(server.handle_bytes(0, &[b'x'; LONGEST]), Ok(()));
    assert_eq!(server.handle_bytes(0, b"x"), Err(TooLong));
    let mut line = vec![b'x'; LONGEST + 1];
    line.push(b'\n');
    assert_eq!(server.handle_bytes(0, &line), Err(TooLong));
}

/// Carries what the ranks say over their sockets to the server, and its answers back.
fn serve(mut server: Server, mut sockets: Vec<UnixStream>) -> Server {
    let mut bytes = [0; 4096];
    loop {
        let mut is_open = false;
        for (rank, socket) in (0..).zip(&mut sockets) {
            socket.set_nonblocking(true).expect("a flag");
            match socket.read(&mut bytes) {
                Ok(0) => continue,
                Ok(count) => server.handle_bytes(rank, &bytes[..count]).expect("short"),
                Err(_) => std::thread::yield_now(),
            }
            is_open = true;
        }
        while let Some((rank, text)) = server.poll_transmit() {
            sockets[rank as usize].write_all(&text).expect("room");
        }
        if !is_open {
            return server;
        }
    }
}

#[test]
fn our_own_client_goes_through_a_job() {
    const RANKS: u32 = 3;
    let (ours, theirs): (Vec<_>, Vec<_>) = (0..RANKS)
        .map(|_| UnixStream::pair().expect("a pair"))
        .unzip();
    let ranks: Vec<_> = (0..RANKS)
        .zip(theirs)
        .map(|(rank, socket)| {
            std::thread::spawn(move || {
                let mut pmi = Pmi::over(socket, rank, RANKS, Some(Version::One)).expect("greeted");
                assert_eq!(pmi.place().job, "kvs_7");
                assert_eq!(pmi.place().program, Some(rank.min(1)));
                pmi.put(&format!("card-{rank}"), &format!("of-{rank}"))
                    .expect("put");
                for round in 0..20 {
                    pmi.begin_fence().expect("told");
                    while !pmi.is_fence_over().expect("it will be") {
                        std::thread::yield_now();
                    }
                    let other = (rank + round) % RANKS;
                    let found = pmi.get(&format!("card-{other}")).expect("it was put");
                    assert_eq!(found, format!("of-{other}"));
                }
                assert!(pmi.get("nothing").is_err());
                pmi.leave();
            })
        })
        .collect();
    let mut server = serve(server(RANKS), ours);
    for rank in ranks {
        rank.join().expect("a rank's checks hold");
    }
    assert!((0..RANKS).all(|rank| server.stage(rank) == Stage::Finalized));
    assert_eq!(server.poll_event(), None);
}

#[test]
fn a_client_that_wants_version_two_hears_that_there_is_none() {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let rank = std::thread::spawn(|| Pmi::over(theirs, 0, 1, Some(Version::Two)).map(drop));
    serve(server(1), vec![ours]);
    let error = rank.join().expect("it ends").expect_err("version 1 alone");
    assert!(error.to_string().contains("another version"), "{error}");
}

/// Bytes that look like commands here and there.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just(b"cmd=".to_vec()),
        Just(b"mcmd=spawn\n".to_vec()),
        Just(b"endcmd\n".to_vec()),
        Just(b"\n".to_vec()),
        Just(b" key=".to_vec()),
        Just(b" value=".to_vec()),
        Just(b" kvsname=kvs_7".to_vec()),
        Just(b" idx=4294967295".to_vec()),
        prop::sample::select(vec![
            "init",
            "put",
            "get",
            "getbyidx",
            "barrier_in",
            "abort",
            "finalize",
            "initack",
        ])
        .prop_map(|name| format!("cmd={name} ").into_bytes()),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    prop::collection::vec(word, 0..60).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_answered_in_whole_lines_of_one_form(
        said in prop::collection::vec((0_u32..3, noise()), 0..8),
        end in 0_u32..4,
    ) {
        let mut server = server(3);
        for (rank, bytes) in &said {
            let _ = server.handle_bytes(*rank, bytes);
        }
        if end < 3 {
            server.handle_end(end);
        }
        while let Some((rank, bytes)) = server.poll_transmit() {
            prop_assert!(rank < 3 && bytes.starts_with(b"cmd=") && bytes.ends_with(b"\n"));
            prop_assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1);
        }
        while server.poll_event().is_some() {}
        for rank in 0..3 {
            let finished = server.handle_bytes(rank, b"\nendcmd\ncmd=get_appnum\n");
            if finished.is_ok() {
                let mut last = None;
                while let Some((whom, bytes)) = server.poll_transmit() {
                    last = Some((whom, bytes));
                }
                let answer = format!("cmd=appnum rc=0 appnum={}\n", rank.min(1));
                prop_assert_eq!(last, Some((rank, answer.into_bytes())));
            }
        }
    }
}
