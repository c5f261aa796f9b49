package admission

import (
	"math"
	"math/bits"
)

// drainRate learns how fast slots come free, from how long tickets held them:
// slots / mean held. Unlike a count of completions it is the same when the
// gate is half idle.
type drainRate struct {
	mean float64 // ns per ticket
	n    int     // tickets seen, up to window
}

const (
	// window is over how many tickets the mean is taken, roughly.
	window = 128
	// enough is after how many tickets the mean counts as known.
	enough = 16
	// outlier is how many times the mean a ticket may count.
	outlier = 8
)

func (d *drainRate) add(held int64) {
	if d.known() {
		held = min(held, int64(outlier*d.mean)) // a stall says nothing about what comes after it
	}
	if d.n < window {
		d.n++
	}
	d.mean += (float64(max(held, 0)) - d.mean) / float64(d.n)
}

func (d *drainRate) known() bool { return d.n >= enough }

// perSecond is the rate with so many slots; 0 = not known.
func (d *drainRate) perSecond(slots int) float64 {
	if !d.known() || slots <= 0 {
		return 0
	}
	return float64(slots) * 1e9 / max(d.mean, 1)
}

// within is how many tickets end within ns; 0 = not known.
func (d *drainRate) within(ns int64, slots int) float64 {
	return d.perSecond(slots) * float64(ns) / 1e9
}

// toDrain is how long n tickets take, in ns; 0 = not known.
func (d *drainRate) toDrain(n float64, slots int) float64 {
	rate := d.perSecond(slots)
	if rate == 0 {
		return 0
	}
	return n / rate * 1e9
}

// WaitBuckets is the number of buckets of Waits.
const WaitBuckets = 32

// Waits is a distribution of waiting times.
type Waits struct {
	// Buckets counts by length: bucket 0 below 1 us, bucket i below 2^i us and
	// not below 2^(i-1), the last one everything longer.
	Buckets [WaitBuckets]uint64
	Sum     int64 // ns
}

// Count returns how many waits were recorded.
func (w *Waits) Count() uint64 {
	var n uint64
	for _, b := range w.Buckets {
		n += b
	}
	return n
}

func (w *Waits) add(ns int64) {
	w.Buckets[min(bits.Len64(uint64(max(ns, 0))/1e3), WaitBuckets-1)]++
	w.Sum += ns
}

func (w *Waits) merge(o *Waits) {
	for i, n := range o.Buckets {
		w.Buckets[i] += n
	}
	w.Sum += o.Sum
}

// lately counts what has happened in the last few seconds.
type lately struct {
	n  float64
	at int64
}

// fade is how long it takes until two thirds of it are forgotten.
const fade = 2e9

func (l *lately) count(now int64) float64 {
	if l.n == 0 {
		return 0
	}
	return l.n * math.Exp(-float64(max(now-l.at, 0))/fade)
}

func (l *lately) add(now int64) { l.n, l.at = l.count(now)+1, now }
