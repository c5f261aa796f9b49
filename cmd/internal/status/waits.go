package status

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/pgweir/pgweir/admission"
)

// waits is a distribution of waiting times as a metric with both kinds of buckets. The
// library's own constant histograms have one kind or the other.
type waits struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	w      *admission.Waits
}

func newWaits(d *prometheus.Desc, w *admission.Waits, labels ...string) prometheus.Metric {
	return &waits{d, prometheus.MakeLabelPairs(d, labels), w}
}

// Desc describes the metric.
func (m *waits) Desc() *prometheus.Desc { return m.desc }

// Classic buckets end at 2^i us for these i: 64 us to 67 s, twice per factor of ten, with
// more of them where a usual max_wait lies. They are exact, because admission counts by
// powers of two of a microsecond.
const (
	firstClassic = 6
	classicStep  = 2
	fineClassic  = 16 // from 66 ms
	coarseAgain  = 22 // from 4 s
	lastClassic  = 26
)

// Native buckets of schema 0 end at powers of two of a second. 2^20 us is 1.0486 s, so bucket
// i of admission is told as the one that ends at 2^(i-20) s.
const (
	nativeSchema  = 0
	nativeOffset  = 20
	nativeZeroMax = 1.0 / (1 << nativeOffset) // s; what is below 1 us is no wait
)

// Write fills in the histogram.
func (m *waits) Write(out *dto.Metric) error {
	n := m.w.Count()
	h := &dto.Histogram{
		SampleCount: &n, SampleSum: new(float64(m.w.Sum) / 1e9),
		Schema: new(int32(nativeSchema)), ZeroThreshold: new(nativeZeroMax), ZeroCount: new(m.w.Buckets[0]),
	}
	h.Bucket = classicBuckets(m.w)
	h.PositiveSpan, h.PositiveDelta = nativeBuckets(m.w)
	out.Label, out.Histogram = m.labels, h
	return nil
}

// classicBuckets are cumulated; +Inf is implied by the count.
func classicBuckets(w *admission.Waits) []*dto.Bucket {
	list := make([]*dto.Bucket, 0, 16)
	var below uint64
	at := 0
	for i := firstClassic; i <= lastClassic; i += step(i) {
		for ; at <= i; at++ {
			below += w.Buckets[at]
		}
		list = append(list, &dto.Bucket{CumulativeCount: new(below), UpperBound: new(math.Ldexp(1e-6, i))})
	}
	return list
}

func step(i int) int {
	if i >= fineClassic && i < coarseAgain {
		return 1
	}
	return classicStep
}

// nativeBuckets is one span from the first to the last bucket that is not empty. A histogram
// without any has a span of no length, which is what tells scrapers that it is a native one.
func nativeBuckets(w *admission.Waits) ([]*dto.BucketSpan, []int64) {
	first, last := 1, len(w.Buckets)-1
	for first < len(w.Buckets) && w.Buckets[first] == 0 {
		first++
	}
	for last > first && w.Buckets[last] == 0 {
		last--
	}
	if first == len(w.Buckets) {
		return []*dto.BucketSpan{{Offset: new(int32(0)), Length: new(uint32(0))}}, nil
	}
	deltas := make([]int64, 0, last-first+1)
	before := int64(0)
	for _, n := range w.Buckets[first : last+1] {
		deltas = append(deltas, int64(n)-before)
		before = int64(n)
	}
	return []*dto.BucketSpan{{Offset: new(int32(first - nativeOffset)), Length: new(uint32(len(deltas)))}}, deltas
}
