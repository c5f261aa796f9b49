package sqltext

import (
	"encoding/binary"
	"math/bits"
)

// Fingerprint hashes the shape of a text: constants and parameters are all the
// same, comments, white space, the letter case of unquoted words and needless
// quotes count for nothing, nor do empty statements, the length of IN and ARRAY
// lists of constants and the number of VALUES rows of constants. Equal shapes
// have equal fingerprints in every process and release of the same major
// version; it is no defence against texts made to collide.
func Fingerprint(text []byte) uint64 {
	f := shaper{scanner: scanner{src: text}, hash: mulA}
	for {
		t := f.next()
		if t == tokEOF {
			return f.hash
		}
		f.token(t)
	}
}

// symbol is what was added to a shape last, as far as the next depends on it.
type symbol uint8

const (
	symNone     symbol = iota
	symWord            // a word that can be an operand, or any quoted identifier
	symBefore          // a word that can't, so that a sign behind it is a constant's
	symIs              // IS, NOT, SET: NULL behind it is syntax
	symIn              // IN, ARRAY: a list may follow
	symValues          // VALUES: rows may follow
	symConstant        // a constant
	symPending         // the same and a comma, which is not added yet
	symOpen            // ( or [
	symClose           // ) or ]
	symRow             // a ) that ends a row of constants
	symRowComma        // the same and a comma
	symComma
	symOperator
)

// shaper adds tokens to a hash.
type shaper struct {
	scanner

	hash  uint64
	last  symbol
	sign  byte   // '+' or '-' that may belong to a constant, not added yet
	semi  bool   // a ";" is not added yet
	lists uint64 // one bit per open parenthesis, innermost lowest: a list that folds

	row     bool   // the innermost parenthesis may be a row
	pure    bool   // and has had nothing but constants
	folds   bool   // and stands behind a row that it may repeat
	count   int    // its constants
	width   int    // constants of the row before
	rewind  uint64 // the hash before the comma behind that row
	started bool   // something was added
}

// token adds one token.
func (f *shaper) token(t token) {
	switch t {
	case tokSemicolon:
		f.semi = f.started
		return
	case tokString, tokEscape, tokCoded, tokDollar, tokParam, tokNumber:
		f.constant(t == tokNumber)
		return
	case tokComma:
		f.comma()
		return
	case tokOpen:
		f.open('(')
		return
	case tokClose:
		f.close(')')
		return
	case tokWord:
		f.wordToken()
		return
	case tokQuoted, tokUnicode:
		f.flush()
		f.quotedToken(t)
		f.pure, f.last = false, symWord
		return
	}
	switch c := f.src[f.start]; {
	case c == '[':
		f.open(c)
	case c == ']':
		f.close(c)
	case (c == '-' || c == '+') && f.sign == 0 && f.awaitsOperand():
		f.sign = c
	default:
		f.flush()
		f.mix(uint64(c))
		f.pure, f.last = false, symOperator
	}
}

// awaitsOperand reports whether a sign at this place belongs to what follows.
func (f *shaper) awaitsOperand() bool {
	switch f.last {
	case symWord, symConstant, symClose, symRow:
		return false
	}
	return true
}

// flush adds what was held back until it was known what follows.
func (f *shaper) flush() {
	if f.last == symPending {
		f.mix(',')
	}
	if f.semi {
		f.mix(';')
		f.semi = false
	}
	if f.sign != 0 {
		f.mix(uint64(f.sign))
		f.sign, f.pure = 0, false
	}
}

func (f *shaper) constant(number bool) {
	if number {
		f.sign = 0
	}
	f.count++
	switch {
	case f.last == symPending && f.lists&1 != 0 && f.sign == 0:
		f.last = symConstant
		return
	case f.last == symConstant && f.sign == 0 && !f.semi:
		return // a string continued on the next line
	}
	f.flush()
	f.mix('?')
	f.last = symConstant
}

func (f *shaper) comma() {
	if f.sign != 0 || f.semi {
		f.flush()
	}
	switch f.last {
	case symConstant:
		f.last = symPending
	case symRow:
		f.rewind = f.hash
		f.mix(',')
		f.last = symRowComma
	default:
		f.flush()
		f.mix(',')
		f.last = symComma
	}
}

func (f *shaper) open(c byte) {
	f.flush()
	f.mix(uint64(c))
	f.folds = f.last == symRowComma
	f.row = f.folds || f.last == symValues || f.lists&1 != 0
	f.lists <<= 1
	if f.last == symIn {
		f.lists |= 1
	}
	f.pure, f.count, f.last = true, 0, symOpen
}

func (f *shaper) close(c byte) {
	f.flush()
	f.mix(uint64(c))
	f.lists >>= 1
	f.last = symClose
	if f.row && f.pure && f.count > 0 {
		f.last = symRow
		if f.folds && f.count == f.width {
			f.hash = f.rewind
		}
		f.width = f.count
	}
	f.row, f.pure = false, false
}

// wordToken adds an unquoted word.
func (f *shaper) wordToken() {
	word := f.text()
	kw := lookup(f.fold, word)
	if f.constantWord(kw) {
		f.constant(false)
		return
	}
	f.flush()
	f.name(word, true)
	f.pure = false
	switch {
	case kw == kwIs, kw == kwNot, kw == kwSet, kw == kwDefault:
		f.last = symIs
	case kw == kwIn, kw == kwArray:
		f.last = symIn
	case kw == kwValues:
		f.last = symValues
	case kw == kwOperand, kw == kwEnd:
		f.last = symWord
	case kw.reserved(), kw == kwBetween, kw == kwTypeFunc:
		f.last = symBefore
	default:
		f.last = symWord
	}
}

// constantWord reports whether a word stands for a constant at this place.
func (f *shaper) constantWord(kw keyword) bool {
	switch kw {
	case kwNull, kwTrue, kwFalse:
		return f.last != symIs && f.last != symConstant
	case kwDefault:
		return f.last == symPending || f.last == symOpen || f.last == symComma || f.last == symOperator
	}
	return false
}

// quotedToken adds a quoted identifier: like the word inside it, unless that
// would be reserved.
func (f *shaper) quotedToken(t token) {
	word := f.text()
	if t == tokUnicode || len(word) < 2 {
		f.name(word, false)
		return
	}
	word = word[1 : len(word)-1]
	if kw := lookup(foldHead(word), word); kw.reserved() {
		f.mix('"')
	}
	f.name(word, false)
}

// name adds the bytes of a word, with ASCII letters folded if asked.
func (f *shaper) name(word []byte, fold bool) {
	size := uint64(len(word))
	for len(word) > 0 {
		var chunk uint64
		if len(word) >= 8 {
			chunk = binary.LittleEndian.Uint64(word)
			word = word[8:]
		} else {
			for i, c := range word {
				chunk |= uint64(c) << (8 * i)
			}
			word = nil
		}
		if fold {
			chunk = foldASCII(chunk)
		}
		f.mix(chunk)
	}
	f.mix(size<<8 | 'w')
}

const (
	eachByte = 0x0101010101010101
	mulA     = 0xa0761d6478bd642f
	mulB     = 0xe7037ed1a0b428db
)

// foldASCII folds the upper-case ASCII letters among eight bytes.
func foldASCII(x uint64) uint64 {
	low := x & (0x7f * eachByte)
	fromA := low + (0x80-'A')*eachByte
	aboveZ := low + (0x7f-'Z')*eachByte
	upper := ^x & (fromA ^ aboveZ) & (0x80 * eachByte)
	return x | upper>>2
}

// mix adds eight bytes to the hash.
func (f *shaper) mix(x uint64) {
	hi, lo := bits.Mul64(f.hash^x^mulB, mulA)
	f.hash = hi ^ lo
	f.started = true
}
