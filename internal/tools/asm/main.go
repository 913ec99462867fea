// Command asm writes the assembly of package xmlstream:
//
//	cd internal/tools/asm && go run . -out ../../../xmlstream/stop_amd64.s
//
// Its output is committed, so that building the gateway needs neither this
// program nor what it depends on.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64,!purego")
	stop()
	Generate()
}

// stop writes stopAVX2. An octet's class is the conjunction of what two tables
// of 16 have for its low and its high nibble; not zero means stop.
func stop() {
	TEXT("stopAVX2", NOSPLIT, "func(p *byte, n int, t *[32]uint8) int")
	Doc("stopAVX2 returns the index of the first of the n octets at p that stops by t, n if",
		"none does. n is at least 32.")
	p := Load(Param("p"), GP64())
	n := Load(Param("n"), GP64())
	t := Load(Param("t"), GP64())

	low, high, nibble, zero := YMM(), YMM(), YMM(), YMM()
	VBROADCASTI128(Mem{Base: t}, low)
	VBROADCASTI128(Mem{Base: t, Disp: 16}, high)
	four := GP32()
	MOVL(U32(0x0F0F0F0F), four)
	x := XMM()
	VMOVD(four, x)
	VPBROADCASTD(x, nibble)
	VPXOR(zero, zero, zero)

	// classes turns 32 octets into their classes.
	classes := func(at Mem) VecVirtual {
		v, lo := YMM(), YMM()
		VMOVDQU(at, v)
		VPAND(nibble, v, lo)
		VPSRLW(U8(4), v, v)
		VPAND(nibble, v, v)
		VPSHUFB(lo, low, lo)
		VPSHUFB(v, high, v)
		VPAND(lo, v, v)
		return v
	}
	// first jumps to hit with the index of the first stop in bit, if v has one.
	bit := GP32()
	first := func(v VecVirtual, hit string) {
		m := YMM()
		VPCMPEQB(zero, v, m)
		VPMOVMSKB(m, bit)
		XORL(I32(-1), bit)
		JNZ(LabelRef(hit))
	}

	i := GP64()
	XORQ(i, i)
	end := GP64()
	LEAQ(Mem{Base: n, Disp: -64}, end)
	JMP(LabelRef("test"))

	Label("loop")
	a := classes(Mem{Base: p, Index: i, Scale: 1})
	b := classes(Mem{Base: p, Index: i, Scale: 1, Disp: 32})
	either := YMM()
	VPOR(a, b, either)
	VPTEST(either, either)
	JNZ(LabelRef("found"))
	ADDQ(Imm(64), i)
	Label("test")
	CMPQ(i, end)
	JLE(LabelRef("loop"))

	// Fewer than 64 are left: 32, and then the last 32, again if need be.
	ADDQ(Imm(32), end)
	CMPQ(i, end)
	JG(LabelRef("last"))
	first(classes(Mem{Base: p, Index: i, Scale: 1}), "hit")
	Label("last")
	MOVQ(end, i)
	first(classes(Mem{Base: p, Index: i, Scale: 1}), "hit")
	Store(n, ReturnIndex(0))
	VZEROUPPER()
	RET()

	Label("found")
	first(a, "hit")
	ADDQ(Imm(32), i)
	first(b, "hit")
	Label("hit")
	BSFL(bit, bit)
	ADDQ(bit.As64(), i)
	Store(i, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
