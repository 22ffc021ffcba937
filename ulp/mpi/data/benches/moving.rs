//! What packing and reducing cost beside `memcpy` of as many bytes, in one run: `cargo bench -p ferriband-mpi-data`.
//!
//! Rounds of all cases are interleaved and medians compared, so that a busy machine slows all of them alike.

use ferriband_mpi_data::{Cursor, Datatype, Form, Kind, Named, Op, View, reduce};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 31;

struct Case {
    name: &'static str,
    /// Packed bytes moved by one call.
    bytes: usize,
    run: Box<dyn FnMut()>,
    ns: Vec<f64>,
}

fn main() {
    // cargo test --all-targets runs this as a test: then one round of little work shows that it runs.
    let quick = std::env::args().any(|arg| arg == "--test");
    for bytes in [8 << 10, 256 << 10, 8 << 20] {
        let mut cases = cases(bytes);
        let repeat = if quick {
            1
        } else {
            ((16 << 20) / bytes).max(1)
        };
        for _ in 0..if quick { 1 } else { ROUNDS } {
            for case in &mut cases {
                let begin = Instant::now();
                for _ in 0..repeat {
                    (case.run)();
                }
                case.ns
                    .push(begin.elapsed().as_nanos() as f64 / repeat as f64);
            }
        }
        println!("{} KiB of data", bytes >> 10);
        let floor = median(&mut cases[0]);
        for case in &mut cases {
            let ns = median(case);
            println!(
                "  {:<44} {:>8.2} GB/s {:>7.2} x memcpy",
                case.name,
                case.bytes as f64 / ns,
                ns / floor * (bytes as f64 / case.bytes as f64)
            );
        }
    }
}

fn median(case: &mut Case) -> f64 {
    case.ns.sort_by(f64::total_cmp);
    case.ns[case.ns.len() / 2]
}

fn cases(bytes: usize) -> Vec<Case> {
    let source = vec![1_u8; bytes];
    let mut target = vec![0_u8; bytes];
    let mut cases = vec![Case {
        name: "memcpy",
        bytes,
        run: Box::new(move || black_box(&mut target).copy_from_slice(black_box(&source))),
        ns: Vec::new(),
    }];
    let named = Datatype::named;
    let vector = |length, stride, old| {
        Datatype::vector(Form::Int, 64, length, stride, &named(old)).expect("a vector")
    };
    let indexed = |length: i64| {
        let places: Vec<i64> = (0..64)
            .map(|index| index * 3 * length + index % 2)
            .collect();
        Datatype::indexed_block(Form::Int, length, &places, &named(Named::Double)).expect("blocks")
    };
    let types = [
        ("contiguous doubles", named(Named::Double)),
        ("vector: 1 B of 2", vector(1, 2, Named::Byte)),
        ("vector: 4 B of 8", vector(1, 2, Named::Int)),
        ("vector: 8 B of 16", vector(1, 2, Named::Double)),
        ("vector: 8 B of 512", vector(1, 64, Named::Double)),
        ("vector: 16 B of 32", vector(2, 4, Named::Double)),
        ("vector: 24 B of 48", vector(3, 6, Named::Double)),
        ("vector: 64 B of 128", vector(8, 16, Named::Double)),
        ("vector: 512 B of 1024", vector(64, 128, Named::Double)),
        ("indexed: 8 B", indexed(1)),
        ("indexed: 64 B", indexed(8)),
        ("struct of int and double, with its gap", {
            let types = [named(Named::Int), named(Named::Double)];
            Datatype::structure(Form::Int, &[1, 1], &[0, 8], &types).expect("a structure")
        }),
        ("column of 8 B, 3 of a 4-D array's dimensions", {
            let part = Datatype::subarray(
                Form::Int,
                &[8, 8, 8, 8],
                &[4, 4, 4, 1],
                &[1, 2, 3, 4],
                ferriband_mpi_data::Order::C,
                &named(Named::Double),
            );
            part.expect("a subarray")
        }),
    ];
    for (name, datatype) in types {
        for unpacks in [false, true] {
            let count = (bytes as i64 / datatype.size()).max(1);
            let view = View::new(&datatype, count).expect("it fits");
            let moved = view.size() as usize;
            let mut memory = vec![1_u8; view.span().len as usize];
            let mut packed = vec![0_u8; moved];
            let base = memory
                .as_mut_ptr()
                .expose_provenance()
                .wrapping_sub(view.span().offset as usize);
            let mut cursor = Cursor::new(view, base);
            cases.push(Case {
                name: match unpacks {
                    false => name,
                    true => "  ... unpacked",
                },
                bytes: moved,
                run: Box::new(move || {
                    black_box(&mut memory);
                    cursor.seek(0);
                    // SAFETY: both buffers were made for the view.
                    unsafe {
                        match unpacks {
                            false => cursor.pack(packed.as_mut_ptr(), moved),
                            true => cursor.unpack(packed.as_ptr(), moved),
                        }
                    };
                    black_box(&mut packed);
                }),
                ns: Vec::new(),
            });
        }
    }
    for (name, op, kind) in [
        ("sum of doubles", Op::Sum, Kind::F64),
        ("max of floats", Op::Max, Kind::F32),
        ("product of long", Op::Prod, Kind::Long),
        ("bxor of int", Op::Bxor, Kind::I32),
        ("land of int", Op::Land, Kind::I32),
        ("product of complex double", Op::Prod, Kind::C64),
        ("maxloc of double, int", Op::Maxloc, Kind::DoubleInt),
        ("sum of binary16", Op::Sum, Kind::F16),
        ("sum of long double", Op::Sum, Kind::F80),
        ("max of long double", Op::Max, Kind::F80),
        ("sum of binary128", Op::Sum, Kind::F128),
    ] {
        // Numbers are zero, so that none becomes subnormal; pages are written, so that none is the kernel's page of zeros.
        let mut buffers = [vec![1_u8; bytes], vec![1_u8; bytes]];
        black_box(&mut buffers);
        let [input, mut inout] = buffers.map(|mut buffer| {
            buffer.fill(0);
            buffer
        });
        let count = bytes / kind.extent() as usize;
        cases.push(Case {
            name,
            bytes,
            run: Box::new(move || {
                // SAFETY: both buffers have `count` elements.
                unsafe {
                    reduce(
                        op,
                        kind,
                        input.as_ptr(),
                        black_box(&mut inout).as_mut_ptr(),
                        count,
                    )
                }
                .expect("the operation applies");
            }),
            ns: Vec::new(),
        });
    }
    cases
}
