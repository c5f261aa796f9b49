package decode

import (
	"slices"
	"strconv"

	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/schema"
	"github.com/pgweir/pgweir/config/values"
)

// countRates makes room for all rates and gives each its label.
func (d *Decoder) countRates(doc document.Document) {
	for i, s := range heads(doc, schema.RateKind) {
		name, given, ok := d.nameOf(s)
		if !given {
			name, ok = strconv.Itoa(i+1), true
		}
		d.newLabel(&d.rates, name, ok, s.At)
		d.File.Rates = append(d.File.Rates, schema.Rate{})
	}
}

// openRates makes the keys of all rates known.
func (d *Decoder) openRates() {
	for i := range d.File.Rates {
		r := &d.File.Rates[i]
		d.openSection(d.rates.labels[i], schema.RateFields(r))
		d.open[d.rates.labels[i]+".match"] = schema.RateMatchFields(r)
	}
}

// checkRates completes the rates and looks at what they are to each other.
func (d *Decoder) checkRates() {
	names := map[string]bool{}
	for i := range d.File.Rates {
		r, label := &d.File.Rates[i], d.rates.labels[i]
		if r.Name == "" {
			r.Name = strconv.Itoa(i + 1)
		}
		if key := label + ".name"; names[r.Name] && d.Fine(key) {
			d.complainAt(key, d.placeOf(key, label), strconv.Quote(r.Name)+" is the name of another rate", "Give one of them another name.")
		}
		names[r.Name] = true
		d.checkRate(r, label)
	}
	for i := range d.File.Rates {
		d.checkReach(i)
	}
}

// checkRate sees to it that a rate says of what it is, and settles its burst.
func (d *Decoder) checkRate(r *schema.Rate, label string) {
	for _, f := range []struct{ key, Value, fix string }{
		{"per", string(r.Per), `Write per = "client", "role" or "tenant".`},
		{"rate", r.Rate, `Write rate = "150/s" for statements, or "500ms/s" for server-time.`},
	} {
		if key := label + "." + f.key; f.Value == "" && d.Fine(key) {
			d.complainAt(key, d.given[label], "is missing", f.fix)
		}
	}
	rate, burst := label+".rate", label+".burst"
	switch {
	case r.Rate == "" || !d.Fine(rate, burst):
	case r.AutoBurst && r.ServerTime:
		r.Burst = r.PerSecond
	case r.AutoBurst:
		r.Burst = max(1, r.PerSecond)
	case r.ServerTime && !r.BurstIsTime():
		d.complainAt(burst, d.placeOf(burst, rate), "is a number of statements, and rate = "+values.Quote(r.Rate)+" is server-time", `Write burst = "500ms", or "auto".`)
	case !r.ServerTime && r.BurstIsTime():
		d.complainAt(burst, d.placeOf(burst, rate), "is a time, and rate = "+values.Quote(r.Rate)+" counts statements", `Write burst = 15, or "auto".`)
	}
}

// checkReach looks for an earlier rate that leaves nothing to one: of those per the same the
// first that matches counts.
func (d *Decoder) checkReach(i int) {
	r, label := &d.File.Rates[i], d.rates.labels[i]
	for j := range i {
		earlier, other := &d.File.Rates[j], d.rates.labels[j]
		everything := earlier.ForAll()
		at := d.placeOf(slices.Concat([]string{label, label + ".per", other + ".per"}, d.matchKeys(label), d.matchKeys(other))...)
		switch {
		case r.Per != earlier.Per || r.Per == "" || d.hasBad(label) || d.hasBad(other):
		case everything:
			d.complainAt(label, at, "can never be reached: "+other+" before it is for all work, per "+string(r.Per)+" too", "Put it before.")
			return
		case earlier.Match.Equal(r.Match) && slices.Equal(earlier.Tenant, r.Tenant):
			d.complainAt(label, at, "can never be reached: "+other+" before it has the same match, per "+string(r.Per)+" too", "")
			return
		}
	}
}
