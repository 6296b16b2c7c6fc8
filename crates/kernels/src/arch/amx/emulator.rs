//! Tiles in software, so that the kernel is tested on CPUs without them.
//!
//! There a tile instruction raises SIGILL. The handler decodes it by the tables of Intel's manual (not
//! by what our assembler makes of the names), does what the manual says, and lets the program go on
//! after it. Where a CPU would refuse, for a configuration out of bounds or shapes that do not fit,
//! the test is stopped with a word why.

use std::cell::{Cell, RefCell};
use std::sync::Once;

/// Reason for which a CPU would reject an instruction.
#[derive(Debug, PartialEq)]
pub(super) struct Fault(pub(super) &'static str);

/// Where an operand lies: `base + displacement`, and rows of it `index << scale` bytes apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Address {
    pub(super) base: usize,
    pub(super) index: Option<usize>,
    pub(super) scale: u8,
    pub(super) displacement: i32,
}

/// The instructions the kernel uses; tiles and registers by number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Instruction {
    LoadConfig(Address),
    Release,
    Load {
        tile: usize,
        from: Address,
    },
    Store {
        tile: usize,
        to: Address,
    },
    Zero {
        tile: usize,
    },
    /// Signed bytes times unsigned or, if `signed`, signed bytes.
    Dot {
        sums: usize,
        a: usize,
        b: usize,
        signed: bool,
    },
    /// Pairs of bf16 numbers.
    DotBf16 {
        sums: usize,
        a: usize,
        b: usize,
    },
}

/// An instruction and its length; nothing if it is none of ours. `code` gives byte after byte.
pub(super) fn decode(mut code: impl FnMut() -> u8) -> Option<(Instruction, usize)> {
    let mut len = 0;
    let mut next = || {
        len += 1;
        code()
    };
    // A prefix of three bytes: C4, then inverted R X B and the opcode map, then W, inverted vvvv, L
    // and pp.
    if next() != 0xc4 {
        return None;
    }
    let (second, third, opcode, modrm) = (next(), next(), next(), next());
    let (extend_reg, extend_index, extend_base) =
        (second & 0x80 == 0, second & 0x40 == 0, second & 0x20 == 0);
    let map_0f38_w0_l0 = second & 0x1f == 2 && third & 0x84 == 0;
    if !map_0f38_w0_l0 || extend_reg {
        return None;
    }
    let third_tile = usize::from(!third >> 3 & 0xf);
    let (mode, reg, rm) = (modrm >> 6, usize::from(modrm >> 3 & 7), usize::from(modrm & 7));
    // pp: nothing, 66, F3, F2.
    let instruction = match (opcode, third & 3, mode) {
        (0x5e, prefix @ (2 | 3), 3) if !extend_base && third_tile < 8 => {
            Instruction::Dot { sums: reg, a: rm, b: third_tile, signed: prefix == 3 }
        }
        (0x5c, 2, 3) if !extend_base && third_tile < 8 => {
            Instruction::DotBf16 { sums: reg, a: rm, b: third_tile }
        }
        (0x49, 3, 3) if rm == 0 && third_tile == 0 => Instruction::Zero { tile: reg },
        (0x49, 0, 3) if reg == 0 && rm == 0 && third_tile == 0 => Instruction::Release,
        (0x49, 0, 0..=2) if reg == 0 && third_tile == 0 => {
            let (address, _) = decode_address(mode, rm, extend_index, extend_base, &mut next)?;
            Instruction::LoadConfig(address)
        }
        (0x4b, 2 | 3, 0..=2) if third_tile == 0 => {
            let (address, has_sib) =
                decode_address(mode, rm, extend_index, extend_base, &mut next)?;
            if !has_sib {
                return None;
            }
            if third & 3 == 3 {
                Instruction::Load { tile: reg, from: address }
            } else {
                Instruction::Store { tile: reg, to: address }
            }
        }
        _ => return None,
    };
    Some((instruction, len))
}

/// The rest of a memory operand after ModRM, and whether it has a SIB byte.
fn decode_address(
    mode: u8,
    rm: usize,
    extend_index: bool,
    extend_base: bool,
    next: &mut impl FnMut() -> u8,
) -> Option<(Address, bool)> {
    let has_sib = rm == 4;
    let (mut base, mut index, mut scale) = (rm, None, 0);
    if has_sib {
        let sib = next();
        scale = sib >> 6;
        base = usize::from(sib & 7);
        // Register 4 as index means none, but not register 12.
        index = Some(usize::from(sib >> 3 & 7) + 8 * usize::from(extend_index)).filter(|&i| i != 4);
    }
    if mode == 0 && base == 5 {
        // Relative to the instruction, or without a base: not ours.
        return None;
    }
    let displacement = match mode {
        0 => 0,
        1 => i32::from(next().cast_signed()),
        _ => i32::from_le_bytes([next(), next(), next(), next()]),
    };
    Some((
        Address { base: base + 8 * usize::from(extend_base), index, scale, displacement },
        has_sib,
    ))
}

/// One tile: its shape, and as many bytes as the largest has.
#[derive(Clone, Copy)]
struct TileRegister {
    rows: usize,
    row_bytes: usize,
    data: [[u8; 64]; 16],
}

/// The tiles of a thread.
pub(super) struct TileFile {
    configured: bool,
    tiles: [TileRegister; 8],
}

impl TileFile {
    pub(super) const RELEASED: Self = Self {
        configured: false,
        tiles: [TileRegister { rows: 0, row_bytes: 0, data: [[0; 64]; 16] }; 8],
    };

    pub(super) fn is_configured(&self) -> bool {
        self.configured
    }

    /// Does what the instruction says, with these values of the sixteen registers.
    ///
    /// # Safety
    ///
    /// All memory that the instruction reads is readable, and all that it writes is writable.
    pub(super) unsafe fn execute(
        &mut self,
        instruction: Instruction,
        registers: &[u64; 16],
    ) -> Result<(), Fault> {
        let start = |at: Address| registers[at.base].wrapping_add_signed(at.displacement.into());
        let stride = |at: Address| at.index.map_or(0, |index| registers[index] << at.scale);
        let row_at = |at: Address, row: usize| {
            start(at).wrapping_add(stride(at).wrapping_mul(row as u64)) as usize
        };
        match instruction {
            Instruction::Release => *self = Self::RELEASED,
            Instruction::LoadConfig(at) => {
                let at = start(at).wrapping_add(stride(at)) as usize;
                // SAFETY: the caller says that it is readable.
                *self = Self::configured(unsafe { &*(at as *const [u8; 64]) })?;
            }
            Instruction::Load { tile, from } => {
                let TileRegister { rows, row_bytes, data } = self.used(tile)?;
                *data = [[0; 64]; 16];
                for (row, data) in data.iter_mut().enumerate().take(*rows) {
                    let from = row_at(from, row) as *const u8;
                    // SAFETY: the caller says that it is readable.
                    unsafe { from.copy_to(data.as_mut_ptr(), *row_bytes) };
                }
            }
            Instruction::Store { tile, to } => {
                let TileRegister { rows, row_bytes, data } = self.used(tile)?;
                for (row, data) in data.iter().enumerate().take(*rows) {
                    let to = row_at(to, row) as *mut u8;
                    // SAFETY: the caller says that it is writable.
                    unsafe { to.copy_from(data.as_ptr(), *row_bytes) };
                }
            }
            Instruction::Zero { tile } => self.used(tile)?.data = [[0; 64]; 16],
            Instruction::Dot { sums, a, b, signed } => {
                let (sums, a, b) = self.operands(sums, a, b)?;
                dot(sums, &a, &b, signed);
            }
            Instruction::DotBf16 { sums, a, b } => {
                let (sums, a, b) = self.operands(sums, a, b)?;
                dot_bf16(sums, &a, &b);
            }
        }
        Ok(())
    }

    fn configured(config: &[u8; 64]) -> Result<Self, Fault> {
        let reserved = config[2..16].iter().chain(&config[32..48]).chain(&config[56..]);
        match config[0] {
            0 => return Ok(Self::RELEASED),
            1 => {}
            _ => return Err(Fault("an unknown palette")),
        }
        if reserved.copied().any(|byte| byte != 0) {
            return Err(Fault("reserved bytes of the configuration are not zero"));
        }
        if config[1] != 0 {
            return Err(Fault("a start row: allowed, but not ours"));
        }
        let mut file = Self { configured: true, ..Self::RELEASED };
        for (i, tile) in file.tiles.iter_mut().enumerate() {
            tile.row_bytes = u16::from_le_bytes([config[16 + 2 * i], config[17 + 2 * i]]).into();
            tile.rows = config[48 + i].into();
            if tile.row_bytes > 64 || tile.rows > 16 {
                return Err(Fault("a tile too large"));
            }
            if (tile.row_bytes == 0) != (tile.rows == 0) {
                return Err(Fault("a tile without rows or without columns"));
            }
        }
        Ok(file)
    }

    /// The tiles of a product, whose shapes must fit.
    fn operands(
        &mut self,
        sums: usize,
        a: usize,
        b: usize,
    ) -> Result<(&mut TileRegister, TileRegister, TileRegister), Fault> {
        if sums == a || sums == b || a == b {
            return Err(Fault("a tile in two roles"));
        }
        let (a, b) = (*self.used(a)?, *self.used(b)?);
        let sums = self.used(sums)?;
        if sums.rows != a.rows || sums.row_bytes != b.row_bytes || a.row_bytes != 4 * b.rows {
            return Err(Fault("tiles whose shapes do not fit"));
        }
        Ok((sums, a, b))
    }

    /// The tile, which must have been configured.
    fn used(&mut self, tile: usize) -> Result<&mut TileRegister, Fault> {
        let tile = &mut self.tiles[tile];
        if !self.configured || tile.rows == 0 {
            return Err(Fault("a tile that is not configured"));
        }
        if !tile.row_bytes.is_multiple_of(4) {
            return Err(Fault("rows of a tile that are not whole double words"));
        }
        Ok(tile)
    }
}

/// `sums[m][n] += a[m][4k..4k + 4] · b[k][4n..4n + 4]`.
fn dot(sums: &mut TileRegister, a: &TileRegister, b: &TileRegister, signed: bool) {
    for (sums, a) in sums.data.iter_mut().zip(&a.data).take(a.rows) {
        for (n, sum) in sums.as_chunks_mut::<4>().0.iter_mut().enumerate().take(b.row_bytes / 4) {
            let mut total = i32::from_le_bytes(*sum);
            for (k, b) in b.data.iter().enumerate().take(b.rows) {
                for q in 0..4 {
                    let (a, b) = (a[4 * k + q], b[4 * n + q]);
                    let a = if PLANTED_ERROR.get() { i32::from(a) } else { a.cast_signed().into() };
                    let b = if signed { b.cast_signed().into() } else { i32::from(b) };
                    total = total.wrapping_add(a * b);
                }
            }
            *sum = total.to_le_bytes();
        }
        sums[b.row_bytes..].fill(0);
    }
}

/// `sums[m][n] += a[m][2k] * b[k][2n] + a[m][2k + 1] * b[k][2n + 1]`: the even and the odd products of all
/// `k` are summed up apart, with fused multiply-add. Subnormal operands and results are zero.
fn dot_bf16(sums: &mut TileRegister, a: &TileRegister, b: &TileRegister) {
    let flush = |x: f32| if x.is_subnormal() { 0.0_f32.copysign(x) } else { x };
    let number = |bytes: &[u8; 64], i: usize| {
        let bits = u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]);
        flush(f32::from_bits(u32::from(bits) << 16))
    };
    for (sums, a) in sums.data.iter_mut().zip(&a.data).take(a.rows) {
        for (n, sum) in sums.as_chunks_mut::<4>().0.iter_mut().enumerate().take(b.row_bytes / 4) {
            let mut of_pairs = [0.0_f32; 2];
            for (k, b) in b.data.iter().enumerate().take(b.rows) {
                for (i, total) in of_pairs.iter_mut().enumerate() {
                    let (a, b) = (number(a, 2 * k + i), number(b, 2 * n + i));
                    let fused = a.mul_add(b, *total);
                    *total = flush(if PLANTED_ERROR.get() { fused.next_up() } else { fused });
                }
            }
            let total = flush(of_pairs[0] + of_pairs[1]);
            *sum = flush(flush(f32::from_le_bytes(*sum)) + total).to_le_bytes();
        }
        sums[b.row_bytes..].fill(0);
    }
}

thread_local! {
    static TILES: RefCell<TileFile> = const { RefCell::new(TileFile::RELEASED) };
    /// Makes products wrong: activations count as unsigned, and floats are rounded up.
    static PLANTED_ERROR: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` on tiles that compute wrong.
pub(super) fn with_planted_error<R>(f: impl FnOnce() -> R) -> R {
    PLANTED_ERROR.set(true);
    let result = f();
    PLANTED_ERROR.set(false);
    result
}

/// Returns `true` if tiles are in use on this thread.
pub(super) fn tiles_in_use() -> bool {
    TILES.with_borrow(TileFile::is_configured)
}

/// Emulates tile instructions from now on, in all threads.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: zeros are an action like any other; the handler has the form that SA_SIGINFO wants.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_illegal_instruction as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGILL, &raw const action, std::ptr::null_mut()), 0);
        }
    });
}

/// The signal comes from the very instruction that the thread is at, so this is as if called from
/// there: nothing is half done.
extern "C" fn on_illegal_instruction(
    _: libc::c_int,
    _: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    const REGISTERS: [libc::c_int; 16] = [
        libc::REG_RAX,
        libc::REG_RCX,
        libc::REG_RDX,
        libc::REG_RBX,
        libc::REG_RSP,
        libc::REG_RBP,
        libc::REG_RSI,
        libc::REG_RDI,
        libc::REG_R8,
        libc::REG_R9,
        libc::REG_R10,
        libc::REG_R11,
        libc::REG_R12,
        libc::REG_R13,
        libc::REG_R14,
        libc::REG_R15,
    ];
    // SAFETY: the system hands a context to handlers installed with SA_SIGINFO.
    let gregs = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let mut at = gregs[libc::REG_RIP as usize] as *const u8;
    let decoded = decode(|| {
        // SAFETY: the decoder asks for no byte after the instruction, and the CPU has just read it.
        unsafe {
            let byte = at.read();
            at = at.add(1);
            byte
        }
    });
    let result = match decoded {
        None => Err(Fault("an instruction that is not emulated")),
        Some((instruction, len)) => {
            let registers = REGISTERS.map(|register| gregs[register as usize] as u64);
            gregs[libc::REG_RIP as usize] += len as i64;
            // SAFETY: the code under test says that it may do what the instruction does.
            TILES.with_borrow_mut(|tiles| unsafe { tiles.execute(instruction, &registers) })
        }
    };
    if let Err(Fault(why)) = result {
        let message = ["AMX emulator: ", why, "\n"].concat();
        // SAFETY: writes a message that is there. There is no way back from here.
        unsafe {
            libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len());
            libc::abort();
        }
    }
}
