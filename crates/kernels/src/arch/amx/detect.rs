//! Detection of AMX int8 tiles, and the permission to use them.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};

/// Leaf of `cpuid` with features.
const FEATURES: u32 = 7;

/// Requests permission to use tiles for all threads of this process, on a CPU with AVX-512. The error is
/// a sentence without a full stop.
pub(super) fn request_tiles() -> Result<(), &'static str> {
    if cfg!(miri) || !cpu_has_tiles() {
        return Err("this CPU has no AMX int8 tiles");
    }
    if !system_keeps_tiles() {
        return Err("this CPU has AMX tiles, but the system has not enabled them");
    }
    if !permission_is_granted() {
        return Err(
            "this CPU has AMX tiles, but the system does not permit this process to use them",
        );
    }
    Ok(())
}

/// Returns `true` if the CPU has AMX-TILE and AMX-INT8 with palette 1: eight tiles of sixteen rows of 64
/// bytes.
pub(super) fn cpu_has_tiles() -> bool {
    const AMX_TILE_AND_INT8: u32 = 1 << 24 | 1 << 25;
    let features = __cpuid_count(FEATURES, 0).edx;
    features & AMX_TILE_AND_INT8 == AMX_TILE_AND_INT8 && palette_is_known(tile_leaf())
}

/// The tile leaf of `cpuid`: the number of palettes, then `eax`, `ebx` and `ecx` of palette 1. Nothing if there is
/// no such leaf.
type TileLeaf = Option<(u32, [u32; 3])>;

fn tile_leaf() -> TileLeaf {
    const TILES: u32 = 0x1d;
    const PALETTE: u32 = 1;
    (__cpuid(0).eax >= TILES).then(|| {
        let palette = __cpuid_count(TILES, PALETTE);
        (__cpuid_count(TILES, 0).eax, [palette.eax, palette.ebx, palette.ecx])
    })
}

/// Returns `true` if palette 1 is as the kernel uses it. Some hypervisors (Firecracker) pass tiles on and hide the leaf
/// that describes them. All CPUs with tiles so far have this palette, and results are compared before tiles are used.
fn palette_is_known(leaf: TileLeaf) -> bool {
    match leaf {
        None | Some((0, _)) => true,
        Some((_, [eax, ebx, ecx])) => {
            let (tile_bytes, row_bytes) = (eax >> 16, ebx & 0xffff);
            let (tiles, rows) = (ebx >> 16, ecx & 0xffff);
            (tiles, tile_bytes, rows, row_bytes) == (8, 1024, 16, 64)
        }
    }
}

/// Returns `true` if a CPU with tiles has AMX-BF16.
pub(super) fn cpu_multiplies_bf16() -> bool {
    const AMX_BF16: u32 = 1 << 22;
    __cpuid_count(FEATURES, 0).edx & AMX_BF16 != 0
}

/// Returns `true` if the system saves tiles and their configuration: bits 17 and 18 of XCR0.
fn system_keeps_tiles() -> bool {
    const TILES_AND_CONFIG: u32 = 1 << 17 | 1 << 18;
    let xcr0: u32;
    // SAFETY: reads register 0. The CPU has AVX-512, which is detected only where this instruction
    // works.
    unsafe {
        asm!(
            "xgetbv",
            in("ecx") 0,
            out("eax") xcr0,
            out("edx") _,
            options(nomem, nostack, preserves_flags)
        );
    }
    xcr0 & TILES_AND_CONFIG == TILES_AND_CONFIG
}

/// Requests permission from Linux, which requires it because tiles make signal frames large. Repeated
/// requests are harmless.
fn permission_is_granted() -> bool {
    const ARCH_PRCTL: isize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const XFEATURE_XTILEDATA: usize = 18;
    let answer: isize;
    // SAFETY: only changes which instructions this process may use, and a system call changes no other
    // registers.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => answer,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    answer == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_palette_is_taken_for_the_usual_one() {
        let usual = [0x0400_2000, 0x0008_0040, 16];
        assert!(palette_is_known(Some((1, usual))));
        assert!(palette_is_known(None), "the last leaf is an earlier one");
        assert!(palette_is_known(Some((0, [0; 3]))), "the leaf is empty");
    }

    #[test]
    fn other_palettes_are_rejected() {
        for other in [[0x0800_2000, 0x0008_0040, 16], [0x0400_2000, 0x0004_0040, 16], [0; 3]] {
            assert!(!palette_is_known(Some((1, other))), "{other:x?}");
        }
    }
}
