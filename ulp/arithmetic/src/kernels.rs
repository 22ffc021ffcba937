//! The loops of the operations.
//!
//! `inout[i] = in[i] op inout[i]`, as MPI orders the operands (6.9.1), or the same with a third place for the result. Buffers are the application's: they are read and written
//! element by element through pointers that need no alignment, in loops that the compiler turns into vector code; where the
//! processor has AVX2 a second copy of the hot ones is compiled for it.
//!
//! `long double` is computed by the x87 itself in a few lines of assembly, binary128 by the compiler's own runtime functions
//! (Rust has a type for neither), binary16 in binary32, converted by the processor where it can.

use crate::float::{f16_to_f32, f32_to_f16, f80_to_f128, order_of_f128};
use crate::kind::Kind;
use crate::op::{NotDefined, Op};
use std::arch::asm;
use std::arch::x86_64::{
    __m128i, __m256, _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128, _mm256_add_ps,
    _mm256_cvtph_ps, _mm256_cvtps_ph, _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps,
};

/// Combines `count` elements of a kind at `input` into those at `inout`.
///
/// [`NotDefined`] if the operation is not defined for the kind; then nothing was written.
///
/// # Safety
///
/// `count` elements, [`Kind::extent`] bytes apart, can be read at `input`, and read and written at `inout` (the padding behind the
/// last pair is not touched); the two ranges do not overlap, and no other thread writes to them meanwhile.
pub unsafe fn reduce(
    op: Op,
    kind: Kind,
    input: *const u8,
    inout: *mut u8,
    count: usize,
) -> Result<(), NotDefined> {
    // SAFETY: the caller's promises, with the right operand where the result goes.
    unsafe { reduce_into(op, kind, (input, inout), inout, count) }
}

/// Combines as many whole elements as both have, of `input` into those of `inout`.
///
/// # Errors
/// [`NotDefined`] if the operation is not defined for the kind; then nothing was written.
pub fn reduce_slices(op: Op, kind: Kind, input: &[u8], inout: &mut [u8]) -> Result<(), NotDefined> {
    let count = input.len().min(inout.len()) / kind.extent() as usize;
    // SAFETY: so many whole elements of two slices that do not overlap.
    unsafe { reduce(op, kind, input.as_ptr(), inout.as_mut_ptr(), count) }
}

/// `out[i] = left[i] op right[i]`, for `count` elements of a kind; otherwise as [`reduce`]. One pass over memory where a copy and [`reduce`] would be two.
///
/// [`NotDefined`] if the operation is not defined for the kind; then nothing was written.
///
/// # Safety
///
/// `count` elements, [`Kind::extent`] bytes apart, can be read at `left` and `right` and written at `out`; `out` overlaps neither of them, or is one of them, and no
/// other thread writes to them meanwhile.
pub unsafe fn reduce_into(
    op: Op,
    kind: Kind,
    (left, right): (*const u8, *const u8),
    out: *mut u8,
    count: usize,
) -> Result<(), NotDefined> {
    let range = Range {
        left,
        right,
        out,
        count,
    };
    let done = match (op, kind) {
        (Op::NoOp, _) if range.is_in_place() => true,
        (Op::NoOp | Op::Replace, _) => {
            // Without the padding behind the last element.
            let padding = kind
                .parts()
                .map_or(0, |[_, (index, at)]| kind.extent() - at - index.size());
            let bytes = (count * kind.extent() as usize).saturating_sub(padding as usize);
            let from = if op == Op::NoOp { right } else { left };
            // SAFETY: the caller promises both ranges. `copy` and not its strict sister: they may be the same.
            unsafe { std::ptr::copy(from, out, bytes) };
            true
        }
        // SAFETY: the caller's promises are those of `Range`.
        _ => unsafe { by_kind(op, kind, range) },
    };
    match done {
        true => Ok(()),
        false => Err(NotDefined { op, kind }),
    }
}

/// The operands of one call: see [`reduce_into`] for what holds of them.
#[derive(Clone, Copy)]
struct Range {
    left: *const u8,
    right: *const u8,
    out: *mut u8,
    count: usize,
}

impl Range {
    /// Whether the result goes where the right operand lies.
    #[inline(always)]
    fn is_in_place(self) -> bool {
        std::ptr::eq(self.right, self.out)
    }

    /// What lies behind the first `elements`, which have `bytes`.
    fn after(self, bytes: usize, elements: usize) -> Self {
        Self {
            left: self.left.wrapping_add(bytes),
            right: self.right.wrapping_add(bytes),
            out: self.out.wrapping_add(bytes),
            count: self.count - elements,
        }
    }
}

/// # Safety
///
/// As [`reduce`].
unsafe fn by_kind(op: Op, kind: Kind, range: Range) -> bool {
    // SAFETY: each call passes on what the caller promised, with an element type of the kind's size and layout.
    unsafe {
        match kind {
            Kind::I8 | Kind::Char => vectors::<i8>(op, range),
            Kind::I16 => vectors::<i16>(op, range),
            Kind::I32 => vectors::<i32>(op, range),
            Kind::I64 | Kind::Long => vectors::<i64>(op, range),
            Kind::I128 => elements::<i128>(op, range),
            Kind::U8 | Kind::Byte => vectors::<u8>(op, range),
            Kind::U16 => vectors::<u16>(op, range),
            Kind::U32 => vectors::<u32>(op, range),
            Kind::U64 | Kind::Ulong => vectors::<u64>(op, range),
            Kind::Bool | Kind::L8 => logicals::<u8>(op, range),
            Kind::L16 => logicals::<u16>(op, range),
            Kind::L32 => logicals::<u32>(op, range),
            Kind::L64 => logicals::<u64>(op, range),
            Kind::L128 => logicals::<i128>(op, range),
            Kind::F16 => elements::<F16>(op, halves(op, range)),
            Kind::F32 => vectors::<f32>(op, range),
            Kind::F64 => vectors::<f64>(op, range),
            Kind::F80 => elements::<F80>(op, range),
            Kind::F128 => elements::<F128>(op, range),
            Kind::C16 => complex::<F16>(op, range),
            Kind::C32 => complex::<f32>(op, range),
            Kind::C64 => complex::<f64>(op, range),
            Kind::C80 => complex::<F80>(op, range),
            Kind::C128 => complex::<F128>(op, range),
            Kind::FloatInt => pairs::<f32, i32>(op, range),
            Kind::DoubleInt => pairs::<f64, i32>(op, range),
            Kind::LongInt => pairs::<i64, i32>(op, range),
            Kind::IntInt => pairs::<i32, i32>(op, range),
            Kind::ShortInt => pairs::<i16, i32>(op, range),
            Kind::LongDoubleInt => pairs::<F80, i32>(op, range),
            Kind::FloatFloat => pairs::<f32, f32>(op, range),
            Kind::DoubleDouble => pairs::<f64, f64>(op, range),
            Kind::Packed | Kind::Wchar => false,
        }
    }
}

/// An element that operations compute with. The methods that a kind does not have are never reached: `BITS` says so.
trait Element: Copy {
    /// True if it has bitwise operations.
    const BITS: bool;
    const ZERO: Self;
    const ONE: Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn more(self, than: Self) -> bool;
    fn same(self, other: Self) -> bool;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;

    #[inline(always)]
    fn truth(self) -> bool {
        !self.same(Self::ZERO)
    }

    #[inline(always)]
    fn of(truth: bool) -> Self {
        if truth { Self::ONE } else { Self::ZERO }
    }
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Element for $type {
            const BITS: bool = true;
            const ZERO: Self = 0;
            const ONE: Self = 1;
            #[inline(always)]
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline(always)]
            fn more(self, than: Self) -> bool { self > than }
            #[inline(always)]
            fn same(self, other: Self) -> bool { self == other }
            #[inline(always)]
            fn and(self, other: Self) -> Self { self & other }
            #[inline(always)]
            fn or(self, other: Self) -> Self { self | other }
            #[inline(always)]
            fn xor(self, other: Self) -> Self { self ^ other }
        }
    )*};
}

integers!(i8 i16 i32 i64 i128 u8 u16 u32 u64);

macro_rules! without_bits {
    () => {
        const BITS: bool = false;
        #[inline(always)]
        fn and(self, _: Self) -> Self {
            self
        }
        #[inline(always)]
        fn or(self, _: Self) -> Self {
            self
        }
        #[inline(always)]
        fn xor(self, _: Self) -> Self {
            self
        }
    };
}

macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Element for $type {
            without_bits!();
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            #[inline(always)]
            fn add(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { self - other }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self * other }
            #[inline(always)]
            fn more(self, than: Self) -> bool { self > than }
            #[inline(always)]
            fn same(self, other: Self) -> bool { self == other }
        }
    )*};
}

floats!(f32 f64);

/// binary16.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct F16(u16);

impl F16 {
    #[inline(always)]
    fn with(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(f32_to_f16(f(f16_to_f32(self.0), f16_to_f32(other.0))))
    }
}

impl Element for F16 {
    without_bits!();
    const ZERO: Self = Self(0);
    const ONE: Self = Self(0x3c00);
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.with(other, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.with(other, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.with(other, |a, b| a * b)
    }
    #[inline(always)]
    fn more(self, than: Self) -> bool {
        f16_to_f32(self.0) > f16_to_f32(than.0)
    }
    #[inline(always)]
    fn same(self, other: Self) -> bool {
        f16_to_f32(self.0) == f16_to_f32(other.0)
    }
}

/// The x87's extended format, as C's `long double` lies in memory.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct F80([u8; 16]);

macro_rules! x87 {
    ($instruction:literal, $a:expr, $b:expr) => {{
        let (a, mut b) = ($a, $b);
        // SAFETY: reads 10 bytes of `a` and of `b` and writes 10 bytes of `b`, which are locals of 16; leaves the register
        // stack as empty as the calling convention wants it.
        unsafe {
            asm!(
                "fld tbyte ptr [{a}]",
                "fld tbyte ptr [{b}]",
                $instruction,
                "fstp tbyte ptr [{b}]",
                a = in(reg) a.0.as_ptr(),
                b = in(reg) b.0.as_mut_ptr(),
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        b
    }};
}

impl F80 {
    fn order(self) -> Option<i128> {
        let [number @ .., _, _, _, _, _, _] = self.0;
        order_of_f128(f80_to_f128(number))
    }
}

impl Element for F80 {
    without_bits!();
    const ZERO: Self = Self([0; 16]);
    const ONE: Self = Self([0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f, 0, 0, 0, 0, 0, 0]);
    fn add(self, other: Self) -> Self {
        x87!("faddp st(1), st", self, other)
    }
    fn sub(self, other: Self) -> Self {
        x87!("fsubp st(1), st", self, other)
    }
    fn mul(self, other: Self) -> Self {
        x87!("fmulp st(1), st", self, other)
    }
    fn more(self, than: Self) -> bool {
        matches!((self.order(), than.order()), (Some(a), Some(b)) if a > b)
    }
    fn same(self, other: Self) -> bool {
        matches!((self.order(), other.order()), (Some(a), Some(b)) if a == b)
    }
}

/// IEEE binary128.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct F128(u128);

/// The compiler's runtime functions for binary128. The calling convention passes such a number as it passes a vector of 16
/// bytes; the declarations here have no parameters because vectors may not stand in them.
mod runtime {
    unsafe extern "C" {
        pub fn __addtf3();
        pub fn __subtf3();
        pub fn __multf3();
    }
}

impl F128 {
    fn with(self, other: Self, function: unsafe extern "C" fn()) -> Self {
        // SAFETY: the functions' true type, see `runtime`; the two vector types have the size and bits of u128.
        unsafe {
            let function: unsafe extern "C" fn(__m128i, __m128i) -> __m128i =
                std::mem::transmute(function);
            let [a, b] = [self.0, other.0].map(|bits| std::mem::transmute::<u128, __m128i>(bits));
            Self(std::mem::transmute::<__m128i, u128>(function(a, b)))
        }
    }
}

impl Element for F128 {
    without_bits!();
    const ZERO: Self = Self(0);
    const ONE: Self = Self(0x3fff << 112);
    fn add(self, other: Self) -> Self {
        self.with(other, runtime::__addtf3)
    }
    fn sub(self, other: Self) -> Self {
        self.with(other, runtime::__subtf3)
    }
    fn mul(self, other: Self) -> Self {
        self.with(other, runtime::__multf3)
    }
    fn more(self, than: Self) -> bool {
        matches!((order_of_f128(self.0), order_of_f128(than.0)), (Some(a), Some(b)) if a > b)
    }
    fn same(self, other: Self) -> bool {
        matches!((order_of_f128(self.0), order_of_f128(other.0)), (Some(a), Some(b)) if a == b)
    }
}

/// `out[i] = f(left[i], right[i])`. Two loops: in place each element is read before it is written, which the compiler cannot tell of two pointers that happen to be the same.
///
/// # Safety
///
/// As [`reduce`], for elements of type `T`.
#[inline(always)]
unsafe fn each<T: Copy>(range: Range, f: impl Fn(T, T) -> T) {
    let (left, out) = (range.left.cast::<T>(), range.out.cast::<T>());
    if range.is_in_place() {
        for index in 0..range.count {
            // SAFETY: the index is below the count for which the caller promises both ranges.
            unsafe {
                let place = out.add(index);
                place.write_unaligned(f(left.add(index).read_unaligned(), place.read_unaligned()));
            }
        }
        return;
    }
    let right = range.right.cast::<T>();
    if std::ptr::eq(range.left, range.out) {
        for index in 0..range.count {
            // SAFETY: as above.
            unsafe {
                let place = out.add(index);
                place.write_unaligned(f(place.read_unaligned(), right.add(index).read_unaligned()));
            }
        }
        return;
    }
    for index in 0..range.count {
        // SAFETY: as above, of all three.
        unsafe {
            let result = f(
                left.add(index).read_unaligned(),
                right.add(index).read_unaligned(),
            );
            out.add(index).write_unaligned(result);
        }
    }
}

/// As [`each`], eight at a time. The compiler would make a choice between `left` and `out` a store under a mask, and those are
/// slow on pages that were never written; of a block it must store all.
///
/// # Safety
///
/// As [`reduce`], for elements of type `T`.
#[inline(always)]
unsafe fn each_in_blocks<T: Copy>(range: Range, f: impl Fn(T, T) -> T) {
    const BLOCK: usize = 8;
    let mut rest = range;
    while rest.count >= BLOCK {
        // SAFETY: so many elements are left of the ranges that the caller promises.
        unsafe {
            let left = rest.left.cast::<[T; BLOCK]>().read_unaligned();
            let mut block = rest.right.cast::<[T; BLOCK]>().read_unaligned();
            for (old, new) in block.iter_mut().zip(left) {
                *old = f(new, *old);
            }
            rest.out.cast::<[T; BLOCK]>().write_unaligned(block);
        }
        rest = rest.after(BLOCK * size_of::<T>(), BLOCK);
    }
    // SAFETY: passed on.
    unsafe { each(rest, f) };
}

/// Computes what it can of binary16 with the processor's conversions, and returns the rest.
///
/// # Safety
///
/// As [`reduce`], for elements of binary16.
unsafe fn halves(op: Op, range: Range) -> Range {
    const LANES: usize = 8;
    #[target_feature(enable = "avx,f16c")]
    unsafe fn lanes(range: Range, f: impl Fn(__m256, __m256) -> __m256) -> Range {
        let mut rest = range;
        while rest.count >= LANES {
            // SAFETY: so many elements are left of the ranges that the caller promises.
            unsafe {
                let a = _mm256_cvtph_ps(_mm_loadu_si128(rest.left.cast()));
                let b = _mm256_cvtph_ps(_mm_loadu_si128(rest.right.cast()));
                let c = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(f(a, b));
                _mm_storeu_si128(rest.out.cast(), c);
            }
            rest = rest.after(2 * LANES, LANES);
        }
        rest
    }
    if !is_x86_feature_detected!("f16c") {
        return range;
    }
    // SAFETY: a processor with F16C has AVX, which the operations need; the rest is passed on.
    unsafe {
        match op {
            Op::Sum => lanes(range, |a, b| _mm256_add_ps(a, b)),
            Op::Prod => lanes(range, |a, b| _mm256_mul_ps(a, b)),
            // The second operand unless the first is more, as everywhere here.
            Op::Max => lanes(range, |a, b| _mm256_max_ps(a, b)),
            Op::Min => lanes(range, |a, b| _mm256_min_ps(a, b)),
            _ => range,
        }
    }
}

/// [`elements`] in the code for this processor.
///
/// # Safety
///
/// As [`reduce`], for elements of type `T`.
unsafe fn vectors<T: Element>(op: Op, range: Range) -> bool {
    #[target_feature(enable = "avx2")]
    unsafe fn avx2<T: Element>(op: Op, range: Range) -> bool {
        // SAFETY: passed on.
        unsafe { elements::<T>(op, range) }
    }
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2; the rest is passed on.
        unsafe { avx2::<T>(op, range) }
    } else {
        // SAFETY: passed on.
        unsafe { elements::<T>(op, range) }
    }
}

/// False if the elements do not have the operation.
///
/// # Safety
///
/// As [`reduce`], for elements of type `T`.
#[inline(always)]
unsafe fn elements<T: Element>(op: Op, range: Range) -> bool {
    // SAFETY: passed on.
    unsafe {
        match op {
            Op::Sum => each(range, T::add),
            Op::Prod => each(range, T::mul),
            Op::Max => each_in_blocks(range, |a: T, b: T| if a.more(b) { a } else { b }),
            Op::Min => each_in_blocks(range, |a: T, b: T| if b.more(a) { a } else { b }),
            Op::Band if T::BITS => each(range, T::and),
            Op::Bor if T::BITS => each(range, T::or),
            Op::Bxor if T::BITS => each(range, T::xor),
            Op::Land => each(range, |a: T, b: T| T::of(a.truth() & b.truth())),
            Op::Lor => each(range, |a: T, b: T| T::of(a.truth() | b.truth())),
            Op::Lxor => each(range, |a: T, b: T| T::of(a.truth() ^ b.truth())),
            _ => return false,
        }
    }
    true
}

/// # Safety
///
/// As [`reduce`], for elements of type `T`.
unsafe fn logicals<T: Element>(op: Op, range: Range) -> bool {
    match op {
        Op::Land | Op::Lor | Op::Lxor | Op::Band | Op::Bor | Op::Bxor => {
            // SAFETY: passed on.
            unsafe { elements::<T>(op, range) }
        }
        _ => false,
    }
}

/// # Safety
///
/// As [`reduce`], for complex numbers with parts of type `T`.
unsafe fn complex<T: Element>(op: Op, range: Range) -> bool {
    match op {
        Op::Sum => {
            let parts = Range {
                count: range.count * 2,
                ..range
            };
            // SAFETY: a complex number is two parts, one after the other.
            unsafe { each(parts, T::add) };
        }
        // SAFETY: passed on.
        Op::Prod => unsafe {
            each(range, |[a, b]: [T; 2], [c, d]: [T; 2]| {
                [a.mul(c).sub(b.mul(d)), a.mul(d).add(b.mul(c))]
            });
        },
        _ => return false,
    }
    true
}

/// A value and its index, laid out as C does. Its padding is never touched: a buffer may end with the last index.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pair<V, I> {
    value: V,
    index: I,
}

impl<V: Copy, I: Copy> Pair<V, I> {
    /// # Safety
    ///
    /// A value and an index can be read at `place`, as C lays them out.
    #[inline(always)]
    unsafe fn read(place: *const Self) -> (V, I) {
        // SAFETY: the members lie at their offsets.
        unsafe {
            (
                (&raw const (*place).value).read_unaligned(),
                (&raw const (*place).index).read_unaligned(),
            )
        }
    }
}

/// # Safety
///
/// As [`reduce`], for pairs of these types.
unsafe fn pairs<V: Element, I: Element>(op: Op, range: Range) -> bool {
    // SAFETY: passed on.
    unsafe {
        match op {
            Op::Maxloc => each_pair::<V, I>(range, |a, b| a.more(b)),
            Op::Minloc => each_pair::<V, I>(range, |a, b| b.more(a)),
            _ => return false,
        }
    }
    true
}

/// Keeps the pair whose value `wins`; of equal values the lower index.
///
/// # Safety
///
/// As [`reduce`], for pairs of these types.
#[inline(always)]
unsafe fn each_pair<V: Element, I: Element>(range: Range, wins: impl Fn(V, V) -> bool) {
    for index in 0..range.count {
        // SAFETY: the index is below the count for which the caller promises both ranges; `Pair` has the layout of C.
        unsafe {
            let place = range.out.cast::<Pair<V, I>>().wrapping_add(index);
            let (value, at) = Pair::read(range.left.cast::<Pair<V, I>>().wrapping_add(index));
            let (old, old_at) = Pair::read(range.right.cast::<Pair<V, I>>().wrapping_add(index));
            let is_left = wins(value, old);
            if is_left || !range.is_in_place() {
                (&raw mut (*place).value).write_unaligned(if is_left { value } else { old });
                (&raw mut (*place).index).write_unaligned(if is_left { at } else { old_at });
            }
            if !is_left && value.same(old) && old_at.more(at) {
                (&raw mut (*place).index).write_unaligned(at);
            }
        }
    }
}

#[cfg(test)]
#[path = "kernels_tests.rs"]
mod tests;
