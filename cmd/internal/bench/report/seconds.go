package report

import (
	"slices"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/bench"
)

// Second is a short stretch of a run, of a second where it is not very short or long.
type Second struct {
	AtS     float64             `json:"at_s"` // its begin
	ForS    float64             `json:"for_s"`
	Asked   int                 `json:"asked"` // requests that were due in it
	By      [bench.Outcomes]int `json:"by"`    // what came of these: served, refused, stopped, gave up, failed, not sent
	TookMS  Spread              `json:"took_ms"`
	ToldMS  Spread              `json:"told_ms"`
	Waiting int                 `json:"waiting"`          // attempts without an answer at its end
	Servers *bench.Servers      `json:"servers,omitzero"` // at its end, if Postgres was watched
	Done    int                 `json:"done"`             // statements answered since the run began, at its end
}

// mostSeconds bounds the points of a plot.
const mostSeconds = 150

// stretch is how long the points of a plot are.
func stretch(length time.Duration) time.Duration {
	for _, d := range []time.Duration{
		100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
		10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour,
	} {
		if least := 20; length <= time.Duration(least)*d || d >= time.Second && length <= mostSeconds*d {
			return d
		}
	}
	return length/mostSeconds + 1
}

// seconds are the stretches of a result, up to its last answer.
func seconds(r *bench.Result) []Second {
	end := max(r.Load.Length(), lastEnd(r))
	if end == 0 {
		return nil
	}
	size := stretch(end)
	list := make([]Second, int((end+size-1)/size))
	took, told := make([]bench.Times, len(list)), make([]bench.Times, len(list))
	at := func(d time.Duration) int { return min(int(d/size), len(list)-1) }
	for i := range r.Records {
		one := &r.Records[i]
		n := at(one.Due)
		if one.Outcome == bench.Refused {
			told[n] = append(told[n], one.Took)
		}
		list[at(one.Sent)].Waiting++
		list[at(one.Sent+one.Took)].Waiting--
		list[at(one.Sent+one.Took)].Done += int(one.Done)
		if !one.Last {
			continue
		}
		list[n].Asked++
		list[n].By[one.Outcome]++
		if one.Outcome == bench.Served {
			took[n] = append(took[n], one.Whole)
		}
	}
	for i := range list {
		s := &list[i]
		s.AtS, s.ForS = (time.Duration(i) * size).Seconds(), size.Seconds()
		if i > 0 { // changes become sums
			s.Waiting += list[i-1].Waiting
			s.Done += list[i-1].Done
		}
		slices.Sort(took[i])
		slices.Sort(told[i])
		s.TookMS, s.ToldMS = spread(took[i]), spread(told[i])
	}
	watched(list, r.Series, size)
	return list
}

// lastEnd is when the last attempt ended.
func lastEnd(r *bench.Result) time.Duration {
	end := time.Duration(0)
	for i := range r.Records {
		end = max(end, r.Records[i].Sent+r.Records[i].Took)
	}
	return end
}

// watched puts what Postgres said to the stretches: the last look in each.
func watched(list []Second, series []bench.Look, size time.Duration) {
	for _, look := range series {
		if n := int(look.At / size); n < len(list) {
			servers := look.Servers
			list[n].Servers = &servers
		}
	}
}
