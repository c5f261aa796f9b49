package sqltext

// keyword is the code of a word that means something to the classifier.
// Codes above kwNotable have an effect wherever they stand.
type keyword uint8

const (
	kwNone      keyword = iota
	kwSemicolon         // stands for the token ";" where the preceding word is asked for
	kwReserved          // any reserved word without a code of its own
	kwTypeFunc          // words allowed as function or type names only
	kwAbort
	kwAll
	kwAnd
	kwArray
	kwAuthorization
	kwBetween
	kwChain
	kwCharacteristics
	kwCommit
	kwCommitted
	kwConstraints
	kwCopy
	kwDeallocate
	kwDeclare
	kwDefault
	kwDeferrable
	kwDiscard
	kwDo
	kwExplain
	kwFalse
	kwFor
	kwFunction
	kwGlobal
	kwHour
	kwIn
	kwInterval
	kwIs
	kwIsolation
	kwLevel
	kwListen
	kwLoad
	kwLocal
	kwMinute
	kwNames
	kwNot
	kwNull
	kwOn
	kwOnly
	kwOperand // reserved words that are values, such as current_date
	kwOr
	kwPrepare
	kwProcedure
	kwRead
	kwRelease
	kwRepeatable
	kwReplace
	kwReset
	kwRole
	kwRollback
	kwSavepoint
	kwSchema
	kwSelect
	kwSerializable
	kwSession
	kwSet
	kwShow
	kwStart
	kwTable
	kwTime
	kwTo
	kwTransaction
	kwTrue
	kwUncommitted
	kwValues
	kwWith
	kwWork
	kwWrite
	kwZone
	kwCreate
	kwBegin

	kwNotable // no word: the border between the two groups

	kwAnalyze
	kwAtomic
	kwDelete
	kwEnd
	kwExecute
	kwHold
	kwInsert
	kwInto
	kwKey
	kwMerge
	kwNo
	kwRunsText // functions of the server that run a text given to them
	kwSetConfig
	kwShare
	kwTemp
	kwUpdate
)

// spelling gives every keyword its word.
var spelling = [...]struct {
	word string
	code keyword
}{
	{"abort", kwAbort},
	{"all", kwAll},
	{"and", kwAnd},
	{"authorization", kwAuthorization},
	{"chain", kwChain},
	{"characteristics", kwCharacteristics},
	{"commit", kwCommit},
	{"committed", kwCommitted},
	{"constraints", kwConstraints},
	{"copy", kwCopy},
	{"deallocate", kwDeallocate},
	{"declare", kwDeclare},
	{"default", kwDefault},
	{"deferrable", kwDeferrable},
	{"discard", kwDiscard},
	{"do", kwDo},
	{"explain", kwExplain},
	{"false", kwFalse},
	{"for", kwFor},
	{"function", kwFunction},
	{"global", kwGlobal},
	{"interval", kwInterval},
	{"isolation", kwIsolation},
	{"level", kwLevel},
	{"listen", kwListen},
	{"load", kwLoad},
	{"local", kwLocal},
	{"names", kwNames},
	{"not", kwNot},
	{"on", kwOn},
	{"only", kwOnly},
	{"or", kwOr},
	{"prepare", kwPrepare},
	{"procedure", kwProcedure},
	{"read", kwRead},
	{"release", kwRelease},
	{"repeatable", kwRepeatable},
	{"replace", kwReplace},
	{"reset", kwReset},
	{"role", kwRole},
	{"rollback", kwRollback},
	{"savepoint", kwSavepoint},
	{"schema", kwSchema},
	{"select", kwSelect},
	{"serializable", kwSerializable},
	{"session", kwSession},
	{"set", kwSet},
	{"show", kwShow},
	{"start", kwStart},
	{"table", kwTable},
	{"time", kwTime},
	{"to", kwTo},
	{"transaction", kwTransaction},
	{"true", kwTrue},
	{"uncommitted", kwUncommitted},
	{"values", kwValues},
	{"with", kwWith},
	{"work", kwWork},
	{"write", kwWrite},
	{"zone", kwZone},
	{"create", kwCreate},
	{"begin", kwBegin},

	{"analyze", kwAnalyze},
	{"analyse", kwAnalyze},
	{"atomic", kwAtomic},
	{"delete", kwDelete},
	{"end", kwEnd},
	{"execute", kwExecute},
	{"hold", kwHold},
	{"insert", kwInsert},
	{"into", kwInto},
	{"key", kwKey},
	{"merge", kwMerge},
	{"no", kwNo},
	{"query_to_xml", kwRunsText},
	{"query_to_xml_and_xmlschema", kwRunsText},
	{"query_to_xmlschema", kwRunsText},
	{"set_config", kwSetConfig},
	{"share", kwShare},
	{"temp", kwTemp},
	{"temporary", kwTemp},
	{"ts_rewrite", kwRunsText},
	{"ts_stat", kwRunsText},
	{"update", kwUpdate},

	{"any", kwReserved},
	{"array", kwArray},
	{"as", kwReserved},
	{"asc", kwReserved},
	{"asymmetric", kwReserved},
	{"both", kwReserved},
	{"case", kwReserved},
	{"cast", kwReserved},
	{"check", kwReserved},
	{"collate", kwReserved},
	{"column", kwReserved},
	{"constraint", kwReserved},
	{"current_catalog", kwOperand},
	{"current_date", kwOperand},
	{"current_role", kwOperand},
	{"current_time", kwOperand},
	{"current_timestamp", kwOperand},
	{"current_user", kwOperand},
	{"desc", kwReserved},
	{"distinct", kwReserved},
	{"else", kwReserved},
	{"except", kwReserved},
	{"fetch", kwReserved},
	{"foreign", kwReserved},
	{"from", kwReserved},
	{"grant", kwReserved},
	{"group", kwReserved},
	{"having", kwReserved},
	{"hour", kwHour},
	{"minute", kwMinute},
	{"in", kwIn},
	{"initially", kwReserved},
	{"intersect", kwReserved},
	{"lateral", kwReserved},
	{"leading", kwReserved},
	{"limit", kwReserved},
	{"localtime", kwOperand},
	{"localtimestamp", kwOperand},
	{"null", kwNull},
	{"offset", kwReserved},
	{"order", kwReserved},
	{"placing", kwReserved},
	{"primary", kwReserved},
	{"references", kwReserved},
	{"returning", kwReserved},
	{"session_user", kwOperand},
	{"some", kwReserved},
	{"symmetric", kwReserved},
	{"then", kwReserved},
	{"trailing", kwReserved},
	{"union", kwReserved},
	{"unique", kwReserved},
	{"user", kwOperand},
	{"using", kwReserved},
	{"variadic", kwReserved},
	{"when", kwReserved},
	{"where", kwReserved},
	{"window", kwReserved},

	{"between", kwBetween},
	{"binary", kwTypeFunc},
	{"collation", kwTypeFunc},
	{"concurrently", kwTypeFunc},
	{"cross", kwTypeFunc},
	{"current_schema", kwTypeFunc},
	{"freeze", kwTypeFunc},
	{"full", kwTypeFunc},
	{"ilike", kwTypeFunc},
	{"inner", kwTypeFunc},
	{"is", kwIs},
	{"isnull", kwTypeFunc},
	{"join", kwTypeFunc},
	{"left", kwTypeFunc},
	{"like", kwTypeFunc},
	{"natural", kwTypeFunc},
	{"notnull", kwTypeFunc},
	{"outer", kwTypeFunc},
	{"overlaps", kwTypeFunc},
	{"right", kwTypeFunc},
	{"similar", kwTypeFunc},
	{"tablesample", kwTypeFunc},
	{"verbose", kwTypeFunc},
}

// reserved reports whether the word can't be a bare value: only true, false
// and on are reserved and yet allowed there.
func (k keyword) reserved() bool {
	switch k {
	case kwReserved, kwOperand, kwAll, kwAnalyze, kwAnd, kwArray, kwCreate, kwDefault, kwDeferrable, kwDo, kwEnd, kwFalse,
		kwFor, kwIn, kwInto, kwNot, kwNull, kwOn, kwOnly, kwOr, kwSelect, kwTable, kwTo, kwTrue, kwWith:
		return true
	}
	return false
}

// identifier reports whether the word may stand unquoted for a name.
func (k keyword) identifier() bool {
	return !k.reserved() && k != kwTypeFunc && k != kwAuthorization && k != kwIs
}

const (
	slotBits = 9
	slots    = 1 << slotBits
)

// slot holds one spelling.
type slot struct {
	head  uint64 // its first eight bytes, folded; 0 = an empty slot
	index uint8  // in spelling
	size  uint8  // bytes of the word
	code  keyword
}

// keywords is an open-addressed hash table, filled once and never written again.
var keywords = buildKeywords()

func buildKeywords() (table [slots]slot) {
	for i, s := range spelling {
		head := foldHead([]byte(s.word))
		at := slotOf(head)
		for table[at].head != 0 {
			at = (at + 1) % slots
		}
		table[at] = slot{head: head, index: uint8(i), size: uint8(len(s.word)), code: s.code}
	}
	return table
}

// slotOf hashes by the golden ratio. The table is a third full, so that a word
// that is no keyword mostly meets an empty slot at once.
func slotOf(head uint64) uint64 { return head * 0x9e3779b97f4a7c15 >> (64 - slotBits) }

// lookup finds the code of a word whose folded head is given.
func lookup(head uint64, word []byte) keyword {
	for at := slotOf(head); ; at = (at + 1) % slots {
		s := &keywords[at]
		if s.head == head && len(word) == int(s.size) && (len(word) <= 8 || sameTail(word, spelling[s.index].word)) {
			return s.code
		}
		if s.head == 0 {
			return kwNone
		}
	}
}

// sameTail compares what follows the first eight bytes of words equally long.
func sameTail(word []byte, spelled string) bool {
	for i := 8; i < len(word); i++ {
		if word[i]|0x20 != spelled[i]|0x20 {
			return false
		}
	}
	return true
}

const foldBits = 0x2020202020202020

// foldHead packs the first eight bytes of a word, low byte first, with letters
// folded. Among the bytes of unquoted words only letters of different case and
// bytes above 0x7f can meet.
func foldHead(word []byte) uint64 {
	var head uint64
	for i := range min(len(word), 8) {
		head |= uint64(word[i]|0x20) << (8 * i)
	}
	return head
}
