// Package costlimit learns what statements cost: how long each shape of statement, known by
// its fingerprint, holds a slot.
//
// It is a pure core: no clocks, locks, goroutines or texts. Its promises:
//
//   - Every operation takes the same short time, and allocates nothing for a fingerprint that
//     is known.
//   - Memory is bounded: of more fingerprints than fit, those that nobody has used for a while
//     are forgotten.
//   - What was learned follows a change: old samples lose their weight.
package costlimit
