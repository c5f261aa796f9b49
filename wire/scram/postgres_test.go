package scram

import "testing"

// TestVerifiersOfPostgres checks passwords against what PostgreSQL 15 stored for
// them with CREATE ROLE ... PASSWORD, in a UTF-8 database. The passwords are those
// over which implementations of SASLprep differ.
func TestVerifiersOfPostgres(t *testing.T) {
	for password, verifier := range map[string]string{
		"secret":              "SCRAM-SHA-256$4096:oxKknAkxLGXVwWH7XTdC2g==$/PhzO6IOJpxPWmcAM4MSCU/lllbMFdI1AgGemFY+qjE=:w/+5MXMUakG3pSeqWKSI26uijnAP8sM+H0pz1pHSRew=",
		"p\u00e4ssw\u00f6rd":  "SCRAM-SHA-256$4096:bH6dyMcmGP8OhIvq+Yjwhw==$S7wpJ7MINqyloEq3AJ2pqMjVYC0C86gHo33nl6dc7w0=:HsRKlu0n2xc3eE6UtDHUX7S0TFFxrAgarUevjk0X6oU=",
		"e\u0301x":            "SCRAM-SHA-256$4096:AbQ68hgrT/xrgBgHRPg3xw==$ODmrC54p32pet6DOlhTXGg8GPjs2hDXbBhuuLJmtLAE=:m4LCoHd+qecbVoXsqmJ9a4NBVNY2xPbgGd7sWliA2I0=",
		"I\u00adX":            "SCRAM-SHA-256$4096:fab3YoaMs5wr3y6RFc4hcw==$da4XKaQHeh1APtVVZ+HfBxlTYvhumESxDWVgeCpoqCU=:EnSDWsNrjxjyCNNRAOYZ7kaFaVAhGtHoRzIEltEsgZM=",
		"\u2168":              "SCRAM-SHA-256$4096:AQRlp3F4Q2LkK28GreR1bQ==$dI2Ek0VUyeI3mTkOujZf32m3T2S+zKolRE9zeG/pqs4=:/JKnCokH0E8m+frQAyOsxGTjKSRMxqmRBNl03qZSOWQ=",
		"e\u0301\U0001f600":   "SCRAM-SHA-256$4096:6qvp4TAEN4M/0qfPsXlfWw==$2jg+WEK1av8nEqxQKtG4475GOOtZEksH7eBFnolpL+M=:bmMziK1aqargjMdJRoGV6pke0SO0r2p4J5jRD6g3ptE=",
		"e\u0301\u200b\u0007": "SCRAM-SHA-256$4096:E3lyXihijKRPPqnkhePFPA==$9iOkSxKsQjp8xEs5DAagkBQrBADzamow1kC1LTGn4+I=:16nAxCsOIMN2qrZFjWZiJHCGYu1Mgel6A2wkxXZHOeQ=",
		"\u0627a\u0628":       "SCRAM-SHA-256$4096:QVUSUVIWH+A4gJOD4/fFKg==$ZkDGsjFRY7arWlalHHKeEhOPzALrXhGuOikB9mI4XuM=:ZPkPp4RI2MVgYibsMNMvUZC5Qpnrah7t6IUCLYxFmAQ=",
		"\ufb50\u0628":        "SCRAM-SHA-256$4096:+aEP9p4F35kTXOd1ObepPg==$85YwzltyeyXzSQgFna8Zqg9/yaPdqCXt43KMlnlymuQ=:80xuWZu9AzRNfnj9v1V4KpsMtTmQTvLD53SAd6wEM8w=",
		"a\u00a0b":            "SCRAM-SHA-256$4096:nRyINDPyilDcOnPXtgawow==$b2DjEt2nU9ytlz2b+ExLw1RobUXxmONMlTw75V9f6a0=:IRrQ70I9YYFv7RVv7CBqoUXeg/c5c+bNbhaTvU/gIoQ=",
		"\u3042\u3099 ":       "SCRAM-SHA-256$4096:GH0hazH4kM8Ouemadr3YJA==$OTukxPGOGtRxnIJaSxRrQ/Dq2pMqMusxXdZW3AK83FM=:7qAc81WUCYz/9vUWdR+g54mzdbix802FR6lwhxxbwdk=",
	} {
		v, err := ParseVerifier(verifier)
		if err != nil {
			t.Errorf("%+q: %v", password, err)
			continue
		}
		if !v.Check(password) {
			t.Errorf("%+q is not the password", password)
		}
		if v.Check(password + "x") {
			t.Errorf("%+q: another password fits", password)
		}
		if v.String() != verifier {
			t.Errorf("%+q: written as %s", password, v)
		}
	}
}
