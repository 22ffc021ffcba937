//! Compares this crate with another MPI library of the standard ABI, type by type and byte by byte:
//!
//! `cargo run -p ferriband-mpi-data --example oracle -- PATH/libmpi_abi.so.1 [CASES]`
//!
//! Random datatypes are made in both; sizes, bounds, envelopes, packed bytes, external32, element counts and reductions must agree.
//! What is known to differ, and why, stands in [`known`]. Prints each difference and ends with 1 if there is one.

#![allow(clippy::unwrap_used)] // a tool of developers: a failure may end it

#[path = "../tests/common/mod.rs"]
mod common;

use ferriband_mpi_data::{
    Combiner, Datatype, Kind, Named, Predefined, Validity, View, external, op, pack, reduce,
};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngSeed, TestRunner};
use std::ffi::{CString, c_char, c_int, c_void};

type Handle = usize;

const COMM_SELF: Handle = 0x102;
const ERRORS_RETURN: Handle = 0x143;
const BYTE: Handle = 0x247;

/// The other library's functions, by name.
#[derive(Clone, Copy)]
struct Library(*mut c_void);

impl Library {
    fn open(path: &str) -> Self {
        let path = CString::new(path).unwrap();
        // SAFETY: a C string.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        assert!(!library.is_null(), "{path:?} cannot be loaded");
        Self(library)
    }

    /// A function as `F`, which must be its type.
    fn get<F: Copy>(self, name: &str) -> F {
        let symbol = CString::new(name).unwrap();
        // SAFETY: the library is open, the name is a C string.
        let found = unsafe { libc::dlsym(self.0, symbol.as_ptr()) };
        assert!(!found.is_null(), "no {name}");
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
        // SAFETY: the standard's prototype, which the caller writes down.
        unsafe { std::mem::transmute_copy(&found) }
    }
}

type Int = c_int;
type Ints = *const c_int;
type Long = i64;
type Longs = *const i64;
type Out<T> = *mut T;

/// Calls a function of the library with these argument types; it must return MPI_SUCCESS.
macro_rules! call {
    ($library:expr, $name:literal ($($type:ty = $value:expr),* $(,)?)) => {{
        let function: unsafe extern "C" fn($($type),*) -> c_int = $library.get($name);
        // SAFETY: the prototype is the standard's; pointers are to locals of the sizes that it wants.
        let class = unsafe { function($($value),*) };
        assert_eq!(class, 0, "{} failed", $name);
    }};
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        eprintln!("usage: oracle PATH/libmpi_abi.so.1 [CASES]");
        std::process::exit(2);
    };
    let cases: u32 = arguments.next().map_or(2000, |text| text.parse().unwrap());
    let library = Library::open(&path);
    let nothing = std::ptr::null_mut::<c_void>();
    call!(library, "MPI_Init"(*mut c_void = nothing, *mut c_void = nothing));
    for comm in [COMM_SELF, COMM_SELF - 1] {
        call!(
            library,
            "MPI_Comm_set_errhandler"(Handle = comm, Handle = ERRORS_RETURN)
        );
    }
    let mut differences = named_types(library) + reductions(library);
    let mut runner = TestRunner::new(Config {
        rng_seed: RngSeed::Fixed(5),
        ..Config::default()
    });
    for case in 0..cases {
        let tree = (common::datatype(), 0..4_i64)
            .new_tree(&mut runner)
            .unwrap();
        let (datatype, count) = tree.current();
        if datatype.elements() > 3000 || has_empty(&datatype) {
            continue;
        }
        let found = compare(library, &datatype, count);
        if !found.is_empty() {
            differences += 1;
            if differences < 20 {
                println!("case {case}, {count} of:\n{}", picture(&datatype, 1));
                found.iter().for_each(|line| println!("  {line}"));
            }
        }
    }
    call!(library, "MPI_Finalize"());
    println!("{cases} types compared, {differences} differences");
    std::process::exit(i32::from(differences > 0));
}

/// That a block or a member is empty.
fn has_empty(datatype: &Datatype) -> bool {
    let c = datatype.contents();
    let a: Vec<i64> = c
        .integers
        .iter()
        .map(|&i| i64::from(i))
        .chain(c.counts.iter().copied())
        .collect();
    let blocks = matches!(
        c.combiner,
        Combiner::Indexed | Combiner::Hindexed | Combiner::Struct
    ) && a[1..=a[0] as usize].contains(&0);
    datatype.size() == 0 || blocks || c.types.iter().any(has_empty)
}

fn has_pair(datatype: &Datatype) -> bool {
    datatype
        .as_named()
        .is_some_and(|named| named.kind().parts().is_some())
        || datatype.contents().types.iter().any(has_pair)
}

fn picture(datatype: &Datatype, depth: usize) -> String {
    let indent = "  ".repeat(depth);
    if let Some(named) = datatype.as_named() {
        return format!("{indent}{}\n", named.name());
    }
    let contents = datatype.contents();
    let mut text = format!(
        "{indent}{:?} {:?} {:?} {:?}\n",
        contents.combiner, contents.integers, contents.addresses, contents.counts
    );
    for old in &contents.types {
        text += &picture(old, depth + 1);
    }
    text
}

/// The same type, made by the other library.
fn twin(library: Library, datatype: &Datatype) -> Handle {
    let contents = datatype.contents();
    if let Some(named) = datatype.as_named() {
        return named.value() as Handle;
    }
    let olds: Vec<Handle> = contents
        .types
        .iter()
        .map(|old| twin(library, old))
        .collect();
    let mut made: Handle = 0;
    let new = &raw mut made;
    let (ints, longs) = (&contents.integers, &contents.counts);
    let large = !longs.is_empty();
    let (i, c, a) = (ints.as_ptr(), longs.as_ptr(), contents.addresses.as_ptr());
    let int = |index: usize| ints[index];
    let at_int = |index: usize| i.wrapping_add(index);
    let at = |index: usize| c.wrapping_add(index);
    match (contents.combiner, large) {
        (Combiner::Dup, _) => call!(library, "MPI_Type_dup"(Handle = olds[0], Out<Handle> = new)),
        (Combiner::Contiguous, false) => {
            call!(library, "MPI_Type_contiguous"(Int = int(0), Handle = olds[0], Out<Handle> = new));
        }
        (Combiner::Contiguous, true) => {
            call!(library, "MPI_Type_contiguous_c"(Long = longs[0], Handle = olds[0], Out<Handle> = new));
        }
        (Combiner::Vector, false) => call!(library, "MPI_Type_vector"(
            Int = int(0), Int = int(1), Int = int(2), Handle = olds[0], Out<Handle> = new)),
        (Combiner::Vector, true) => call!(library, "MPI_Type_vector_c"(
            Long = longs[0], Long = longs[1], Long = longs[2], Handle = olds[0], Out<Handle> = new)),
        (Combiner::Hvector, false) => call!(library, "MPI_Type_create_hvector"(
            Int = int(0), Int = int(1), Long = contents.addresses[0], Handle = olds[0], Out<Handle> = new)),
        (Combiner::Hvector, true) => call!(library, "MPI_Type_create_hvector_c"(
            Long = longs[0], Long = longs[1], Long = longs[2], Handle = olds[0], Out<Handle> = new)),
        (Combiner::Indexed, false) => call!(library, "MPI_Type_indexed"(
            Int = int(0), Ints = at_int(1), Ints = at_int(1 + int(0) as usize), Handle = olds[0], Out<Handle> = new)),
        (Combiner::Indexed, true) => call!(library, "MPI_Type_indexed_c"(
            Long = longs[0], Longs = at(1), Longs = at(1 + longs[0] as usize), Handle = olds[0], Out<Handle> = new)),
        (Combiner::Hindexed, false) => call!(library, "MPI_Type_create_hindexed"(
            Int = int(0), Ints = at_int(1), Longs = a, Handle = olds[0], Out<Handle> = new)),
        (Combiner::Hindexed, true) => call!(library, "MPI_Type_create_hindexed_c"(
            Long = longs[0], Longs = at(1), Longs = at(1 + longs[0] as usize), Handle = olds[0], Out<Handle> = new)),
        (Combiner::IndexedBlock, false) => call!(library, "MPI_Type_create_indexed_block"(
            Int = int(0), Int = int(1), Ints = at_int(2), Handle = olds[0], Out<Handle> = new)),
        (Combiner::IndexedBlock, true) => call!(library, "MPI_Type_create_indexed_block_c"(
            Long = longs[0], Long = longs[1], Longs = at(2), Handle = olds[0], Out<Handle> = new)),
        (Combiner::HindexedBlock, false) => call!(library, "MPI_Type_create_hindexed_block"(
            Int = int(0), Int = int(1), Longs = a, Handle = olds[0], Out<Handle> = new)),
        (Combiner::HindexedBlock, true) => call!(library, "MPI_Type_create_hindexed_block_c"(
            Long = longs[0], Long = longs[1], Longs = at(2), Handle = olds[0], Out<Handle> = new)),
        (Combiner::Struct, false) => call!(library, "MPI_Type_create_struct"(
            Int = int(0), Ints = at_int(1), Longs = a, *const Handle = olds.as_ptr(), Out<Handle> = new)),
        (Combiner::Struct, true) => call!(library, "MPI_Type_create_struct_c"(
            Long = longs[0], Longs = at(1), Longs = at(1 + longs[0] as usize),
            *const Handle = olds.as_ptr(), Out<Handle> = new)),
        (Combiner::Resized, false) => call!(library, "MPI_Type_create_resized"(
            Handle = olds[0], Long = contents.addresses[0], Long = contents.addresses[1], Out<Handle> = new)),
        (Combiner::Resized, true) => call!(library, "MPI_Type_create_resized_c"(
            Handle = olds[0], Long = longs[0], Long = longs[1], Out<Handle> = new)),
        (Combiner::Subarray, false) => {
            let n = int(0) as usize;
            call!(library, "MPI_Type_create_subarray"(
                Int = int(0), Ints = at_int(1), Ints = at_int(1 + n), Ints = at_int(1 + 2 * n),
                Int = int(1 + 3 * n), Handle = olds[0], Out<Handle> = new));
        }
        (Combiner::Subarray, true) => {
            let n = int(0) as usize;
            call!(library, "MPI_Type_create_subarray_c"(
                Int = int(0), Longs = at(0), Longs = at(n), Longs = at(2 * n),
                Int = int(1), Handle = olds[0], Out<Handle> = new));
        }
        (Combiner::Darray, false) => {
            let n = int(2) as usize;
            call!(library, "MPI_Type_create_darray"(
                Int = int(0), Int = int(1), Int = int(2), Ints = at_int(3), Ints = at_int(3 + n),
                Ints = at_int(3 + 2 * n), Ints = at_int(3 + 3 * n), Int = int(3 + 4 * n),
                Handle = olds[0], Out<Handle> = new));
        }
        (Combiner::Darray, true) => {
            let n = int(2) as usize;
            call!(library, "MPI_Type_create_darray_c"(
                Int = int(0), Int = int(1), Int = int(2), Longs = at(0), Ints = at_int(3),
                Ints = at_int(3 + n), Ints = at_int(3 + 2 * n), Int = int(3 + 3 * n),
                Handle = olds[0], Out<Handle> = new));
        }
        (other, _) => unreachable!("{other:?} is not made at random"),
    }
    for (mut old, ours) in olds.into_iter().zip(&contents.types) {
        if ours.as_named().is_none() {
            call!(library, "MPI_Type_free"(Out<Handle> = &raw mut old));
        }
    }
    made
}

/// What differs, in words.
fn compare(library: Library, datatype: &Datatype, count: i64) -> Vec<String> {
    let mut found = Vec::new();
    let mut other = twin(library, datatype);
    let mut differ = |what: &str, ours: String, theirs: String| {
        if ours != theirs && !known(what, datatype) {
            found.push(format!("{what}: {ours} here, {theirs} there"));
        }
    };
    let [
        mut size,
        mut lb,
        mut extent,
        mut true_lb,
        mut true_extent,
        mut external_size,
    ] = [0_i64; 6];
    call!(library, "MPI_Type_size_c"(Handle = other, Out<i64> = &raw mut size));
    call!(library, "MPI_Type_get_extent_c"(Handle = other, Out<i64> = &raw mut lb, Out<i64> = &raw mut extent));
    call!(library, "MPI_Type_get_true_extent_c"(
        Handle = other, Out<i64> = &raw mut true_lb, Out<i64> = &raw mut true_extent));
    differ("size", datatype.size().to_string(), size.to_string());
    let bounds = (datatype.lb(), datatype.extent());
    differ(
        "lb, extent",
        format!("{bounds:?}"),
        format!("{:?}", (lb, extent)),
    );
    let bounds = (datatype.true_lb(), datatype.true_extent());
    differ(
        "true extent",
        format!("{bounds:?}"),
        format!("{:?}", (true_lb, true_extent)),
    );
    envelope(library, datatype, other, &mut differ);

    call!(library, "MPI_Type_commit"(Out<Handle> = &raw mut other));
    let same_places = bounds == (true_lb, true_extent) && datatype.extent() == extent;
    let view = View::new(datatype, count).unwrap();
    let span = view.span();
    let memory: Vec<u8> = (0..span.len).map(|index| (index * 37 + 11) as u8).collect();
    let base = memory
        .as_ptr()
        .expose_provenance()
        .wrapping_sub(span.offset as usize);
    if same_places && size == datatype.size() {
        let mut ours = vec![0_u8; view.size() as usize];
        // SAFETY: the memory has the span, `ours` the size.
        unsafe { pack(datatype, count, base, ours.as_mut_ptr(), view.size(), 0) }.unwrap();
        let mut theirs = vec![0_u8; view.size() as usize];
        let mut position = 0_i64;
        call!(library, "MPI_Pack_c"(
            usize = base, Long = count, Handle = other, *mut u8 = theirs.as_mut_ptr(),
            Long = view.size(), Out<i64> = &raw mut position, Handle = COMM_SELF));
        let at = ours.iter().zip(&theirs).position(|(a, b)| a != b);
        differ(
            "packed",
            format!("{at:?} of {}", ours.len()),
            "None of".to_owned() + &format!(" {}", ours.len()),
        );
    }
    // Of derived types and of pairs MPICH 5.0.2 ends the process here (a division by zero, an assertion).
    if has_pair(datatype) || datatype.as_named().is_none() {
        if datatype.as_named().is_none() {
            call!(library, "MPI_Type_free"(Out<Handle> = &raw mut other));
        }
        return found;
    }
    let name = c"external32";
    call!(library, "MPI_Pack_external_size_c"(
        *const c_char = name.as_ptr(), Long = count, Handle = other, Out<i64> = &raw mut external_size));
    let ours = external::size(datatype, count).unwrap();
    differ("external size", ours.to_string(), external_size.to_string());

    // The other library divides by the size of a type without data.
    let most = if datatype.size() == 0 || datatype.as_named().is_none() {
        -1
    } else {
        view.size().min(100)
    };
    for bytes in 0..=most {
        let mut status = [0_i32; 8];
        call!(library, "MPI_Status_set_elements_c"(
            Out<[i32; 8]> = &raw mut status, Handle = BYTE, Long = bytes));
        let [mut elements, mut whole] = [0_i64; 2];
        call!(library, "MPI_Get_elements_c"(
            *const [i32; 8] = &raw const status, Handle = other, Out<i64> = &raw mut elements));
        call!(library, "MPI_Get_count_c"(
            *const [i32; 8] = &raw const status, Handle = other, Out<i64> = &raw mut whole));
        let ours = [datatype.elements_of(bytes), datatype.count_of(bytes)];
        let ours = ours.map(|count| count.unwrap_or(-32766));
        if bytes % 2 == 0 || elements != -32766 {
            differ(
                "elements, count",
                format!("{bytes} B {ours:?}"),
                format!("{bytes} B {:?}", [elements, whole]),
            );
        }
    }
    if datatype.as_named().is_none() {
        call!(library, "MPI_Type_free"(Out<Handle> = &raw mut other));
    }
    found
}

fn envelope(
    library: Library,
    datatype: &Datatype,
    other: Handle,
    differ: &mut impl FnMut(&str, String, String),
) {
    let [mut integers, mut addresses, mut counts, mut types] = [0_i64; 4];
    let mut combiner = 0;
    call!(library, "MPI_Type_get_envelope_c"(
        Handle = other, Out<i64> = &raw mut integers, Out<i64> = &raw mut addresses,
        Out<i64> = &raw mut counts, Out<i64> = &raw mut types, Out<c_int> = &raw mut combiner));
    let ours = datatype.contents();
    let lengths = [
        ours.integers.len(),
        ours.addresses.len(),
        ours.counts.len(),
        ours.types.len(),
    ];
    let theirs = [integers, addresses, counts, types].map(|length| length as usize);
    differ(
        "combiner",
        ours.combiner.value().to_string(),
        combiner.to_string(),
    );
    differ("envelope", format!("{lengths:?}"), format!("{theirs:?}"));
    if lengths != theirs || datatype.as_named().is_some() {
        return;
    }
    let mut list = vec![0_i32; lengths[0]];
    let (mut far, mut large) = (vec![0_i64; lengths[1]], vec![0_i64; lengths[2]]);
    let mut handles = vec![0; lengths[3]];
    call!(library, "MPI_Type_get_contents_c"(
        Handle = other, Long = integers, Long = addresses, Long = counts, Long = types,
        Out<i32> = list.as_mut_ptr(), Out<i64> = far.as_mut_ptr(), Out<i64> = large.as_mut_ptr(),
        Out<Handle> = handles.as_mut_ptr()));
    differ(
        "integers",
        format!("{:?}", ours.integers),
        format!("{list:?}"),
    );
    differ(
        "addresses",
        format!("{:?}", ours.addresses),
        format!("{far:?}"),
    );
    differ("counts", format!("{:?}", ours.counts), format!("{large:?}"));
    for (old, mut handle) in ours.types.iter().zip(handles) {
        match old.as_named() {
            Some(named) => differ("old type", named.value().to_string(), handle.to_string()),
            None => call!(library, "MPI_Type_free"(Out<Handle> = &raw mut handle)),
        }
    }
}

/// Where MPICH 5.0.2 is known to do otherwise: it gives empty blocks bounds (such types are not compared at all, see [`has_empty`]), moves
/// elements of 16 bytes as an x87 number of 10, and in a structure lets the bounds of what is not marked count beside marks (MPI 5.1.7 does not),
/// and has no external32 for sized Fortran types. A few paddings behind Fortran types differ besides.
fn known(what: &str, datatype: &Datatype) -> bool {
    match what {
        "packed" => {
            any(datatype, &|old| {
                old.as_named()
                    .is_some_and(|named| named.kind().size() >= 16)
            }) || marked(datatype)
        }
        "lb, extent" | "true extent" => marked(datatype),
        "external size" => any(datatype, &|old| {
            old.as_named().is_some_and(|named| named.value() >= 0x2c0)
        }),
        _ => false,
    }
}

/// That a structure and marked bounds occur together.
fn marked(datatype: &Datatype) -> bool {
    let made_by =
        |list: &'static [Combiner]| any(datatype, &|old| list.contains(&old.contents().combiner));
    made_by(&[Combiner::Struct])
        && made_by(&[Combiner::Resized, Combiner::Subarray, Combiner::Darray])
}

fn any(datatype: &Datatype, is: &dyn Fn(&Datatype) -> bool) -> bool {
    is(datatype) || datatype.contents().types.iter().any(|old| any(old, is))
}

fn named_types(library: Library) -> usize {
    let mut differences = 0;
    for &named in Named::ALL {
        let mut size = 0_i64;
        call!(library, "MPI_Type_size_c"(Handle = named.value() as Handle, Out<i64> = &raw mut size));
        if size != named.size() {
            println!(
                "{}: {} bytes here, {size} there",
                named.name(),
                named.size()
            );
            differences += 1;
            continue;
        }
        for line in compare(library, &Datatype::named(named), 2) {
            println!("{}: {line}", named.name());
            differences += 1;
        }
        differences += external_bytes(library, named);
    }
    differences
}

/// Elements with bits of all sorts that are numbers of their kind.
fn numbers(named: Named, count: usize, seed: u8) -> Vec<u8> {
    let extent = named.extent() as usize;
    let mut bytes = vec![0_u8; extent * count];
    for (index, element) in bytes.chunks_exact_mut(extent).enumerate() {
        let small = (index as u8).wrapping_mul(29).wrapping_add(seed) % 50;
        let negative = index % 3 == 1;
        let signed = i32::from(small) * if negative { -1 } else { 1 };
        number(named.kind(), signed, element);
    }
    bytes
}

fn number(kind: Kind, value: i32, element: &mut [u8]) {
    let float = f64::from(value) * 0.75;
    let put = |element: &mut [u8], bytes: &[u8]| element[..bytes.len()].copy_from_slice(bytes);
    let long_double = || {
        let mut bytes = [0_u8; 16];
        let bits = float.to_bits();
        if value != 0 {
            bytes[..8].copy_from_slice(&(1 << 63 | bits << 11).to_le_bytes());
            let exponent = (bits >> 52 & 0x7ff) as u16 + (16383 - 1023);
            bytes[8..10].copy_from_slice(&(exponent | ((bits >> 63) as u16) << 15).to_le_bytes());
        }
        bytes
    };
    let quad = || {
        let bits = u128::from(float.to_bits());
        let exponent = (bits >> 52 & 0x7ff) + (16383 - 1023);
        let magnitude = exponent << 112 | (bits & ((1 << 52) - 1)) << 60;
        if value == 0 {
            [0; 16]
        } else {
            (bits >> 63 << 127 | magnitude).to_le_bytes()
        }
    };
    if let Some([(first, at), (second, behind)]) = kind.parts() {
        number(first, value, &mut element[at as usize..]);
        return number(second, value + 1, &mut element[behind as usize..]);
    }
    match kind {
        Kind::F32 => put(element, &(float as f32).to_le_bytes()),
        Kind::F64 => put(element, &float.to_le_bytes()),
        Kind::F80 => put(element, &long_double()),
        Kind::F128 => put(element, &quad()),
        // 16 bits: a power of two with a sign
        Kind::F16 => put(
            element,
            &(0x3c00 + (value.unsigned_abs() as u16 % 4) * 0x400).to_le_bytes(),
        ),
        Kind::C16 => {
            number(Kind::F16, value, element);
            number(Kind::F16, value + 1, &mut element[2..]);
        }
        Kind::C32 => {
            number(Kind::F32, value, element);
            number(Kind::F32, value + 1, &mut element[4..]);
        }
        Kind::C64 => {
            number(Kind::F64, value, element);
            number(Kind::F64, value + 1, &mut element[8..]);
        }
        Kind::C80 | Kind::C128 => {
            let part = if kind == Kind::C80 {
                Kind::F80
            } else {
                Kind::F128
            };
            number(part, value, element);
            number(part, value + 1, &mut element[16..]);
        }
        Kind::Bool | Kind::L8 | Kind::L16 | Kind::L32 | Kind::L64 | Kind::L128 => {
            put(element, &[u8::from(value % 2 != 0)]);
        }
        Kind::Wchar | Kind::Ulong | Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64 => {
            let size = kind.size() as usize;
            put(
                element,
                &u128::from(value.unsigned_abs()).to_le_bytes()[..size],
            );
        }
        _ => put(
            element,
            &i128::from(value).to_le_bytes()[..kind.size() as usize],
        ),
    }
}

/// The encodings of some numbers.
fn external_bytes(library: Library, named: Named) -> usize {
    let datatype = Datatype::named(named);
    // As above: MPICH 5.0.2 does not convert bools, wide characters and sized Fortran types.
    if has_pair(&datatype) || named.value() > 0x237 {
        return 0;
    }
    let count = 7;
    let memory = numbers(named, count, 3);
    let size = external::size(&datatype, count as i64).unwrap();
    let [mut ours, mut theirs] = [vec![0_u8; size as usize], vec![0_u8; size as usize + 64]];
    let base = memory.as_ptr().expose_provenance();
    // SAFETY: the memory has the elements, `ours` the size.
    unsafe { external::pack(&datatype, count as i64, base, ours.as_mut_ptr(), size, 0) }.unwrap();
    let mut position = 0_i64;
    call!(library, "MPI_Pack_external_c"(
        *const c_char = c"external32".as_ptr(), usize = base, Long = count as i64,
        Handle = named.value() as Handle, *mut u8 = theirs.as_mut_ptr(), Long = size + 64,
        Out<i64> = &raw mut position));
    theirs.truncate(position as usize);
    if ours == theirs {
        return 0;
    }
    println!(
        "{} in external32:\n  {ours:02x?} here\n  {theirs:02x?} there",
        named.name()
    );
    1
}

fn reductions(library: Library) -> usize {
    let mut differences = 0;
    type Reduce = unsafe extern "C" fn(*const u8, *mut u8, i64, Handle, Handle) -> c_int;
    let theirs: Reduce = library.get("MPI_Reduce_local_c");
    for &named in Named::ALL {
        for op in op::ALL {
            if op.is_for_windows_only() {
                continue;
            }
            let count = 37;
            let input = numbers(named, count, 3);
            let [mut a, mut b] = [numbers(named, count, 8), numbers(named, count, 8)];
            let (datatype, handle) = (named.value() as Handle, op.value() as Handle);
            // SAFETY: all have `count` elements.
            let class = unsafe {
                theirs(
                    input.as_ptr(),
                    b.as_mut_ptr(),
                    count as i64,
                    datatype,
                    handle,
                )
            };
            let validity = op.validity(named);
            if (class == 0) != (validity != Validity::Invalid) {
                println!(
                    "{} of {}: {validity:?} here, class {class} there",
                    op.name(),
                    named.name()
                );
                differences += usize::from(validity == Validity::Standard);
                continue;
            }
            if class != 0 {
                continue;
            }
            // SAFETY: as above.
            unsafe { reduce(op, named.kind(), input.as_ptr(), a.as_mut_ptr(), count) }.unwrap();
            let meaning = |bytes: &[u8]| -> Vec<u8> {
                // The x87's numbers have 6 bytes of padding.
                let padded = matches!(named.kind(), Kind::F80 | Kind::C80);
                let index = |&(index, _): &(usize, &u8)| !padded || index % 16 < 10;
                bytes
                    .iter()
                    .enumerate()
                    .filter(index)
                    .map(|(_, byte)| *byte)
                    .collect()
            };
            if named.kind().parts().is_none() && meaning(&a) != meaning(&b) {
                println!(
                    "{} of {}:\n  {a:?} here\n  {b:?} there",
                    op.name(),
                    named.name()
                );
                differences += 1;
            }
        }
    }
    differences
}
