package status

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgweir/pgweir/cmd/internal/state"
)

// tlsMetrics are about the encryption of clients' connections. Those of the certificate
// are there only if there is one.
type tlsMetrics struct {
	totals group[state.TLS]
	state  group[state.TLS]
}

func newTLSMetrics() tlsMetrics {
	type T = state.TLS
	var m tlsMetrics
	m.totals.metric(counterKind, "pgweir_tls_handshakes_total", "TLS handshakes of clients. Failed: client and server do not agree; lost: the client left or took too long.", "result").
		with(func(t *T) float64 { return float64(t.Done) }, "done").
		with(func(t *T) float64 { return float64(t.Failed) }, "failed").
		with(func(t *T) float64 { return float64(t.Lost) }, "lost")
	m.totals.metric(counterKind, "pgweir_tls_certificate_reads_total", "Changed certificate files that were read. Failed: they could not be used, and those before stay.", "result").
		with(func(t *T) float64 { return float64(t.Loaded) }, "done").
		with(func(t *T) float64 { return float64(t.Unusable) }, "failed")
	m.state.gauge("pgweir_tls_certificate_current", "1 if the certificate files as they are now are in use, else 0.", func(t *T) float64 { return truth(t.Stale == "") })
	m.state.gauge("pgweir_tls_certificate_not_after_timestamp_seconds", "The end of the certificate in use.", func(t *T) float64 { return unixSeconds(t.NotAfter) })
	return m
}

func (m *tlsMetrics) describe(ch chan<- *prometheus.Desc) {
	m.totals.describe(ch)
	m.state.describe(ch)
}

func (m *tlsMetrics) collect(ch chan<- prometheus.Metric, t *state.TLS) {
	m.totals.collect(ch, t)
	if t.On {
		m.state.collect(ch, t)
	}
}
