package sqltext

import "testing"

const pgbenchSelect = "SELECT abalance FROM pgbench_accounts WHERE aid = 12345678;"

func BenchmarkClassify(b *testing.B) {
	for _, bm := range []struct{ name, text string }{
		{"pgbench_select", pgbenchSelect},
		{"tagged", pgbenchSelect + " /*application='web',route='orders'*/"},
		{"begin", "BEGIN"},
		{"probe", "SELECT 1"},
		{"set", "SET SESSION timezone TO 'Europe/Zurich'"},
		{"join", "SELECT o.id, o.total, c.name FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.state = 'open' AND o.created_at > $1 ORDER BY o.created_at DESC LIMIT 50 FOR UPDATE OF o SKIP LOCKED"},
	} {
		text := []byte(bm.text)
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Classify(text)
			}
		})
	}
}

func BenchmarkFingerprint(b *testing.B) {
	text := []byte(pgbenchSelect)
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Fingerprint(text)
	}
}
