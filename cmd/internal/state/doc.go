// Package state is what a pgweir is like at a moment: plain values without locks, and the
// questions by which they are got. proxy gathers them, console and status show them, and nobody
// changes them: each is a copy that may be kept.
package state
