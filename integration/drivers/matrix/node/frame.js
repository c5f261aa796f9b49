// What the agents in JavaScript have in common: commands in, lines out. See ../doc.go.
'use strict'
const readline = require('readline')

const out = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' }
const back = { '\\': '\\', t: '\t', n: '\n', r: '\r' }
const encode = (v) => v === null || v === undefined ? '\\N' : String(v).replace(/[\\\t\n\r]/g, (c) => out[c])
const decode = (s) => s === '\\N' ? null : s.replace(/\\(.)/g, (_, c) => back[c])

exports.options = (args) => Object.fromEntries(args.map((arg) => [arg.slice(0, arg.indexOf('=')), arg.slice(arg.indexOf('=') + 1)]))

// failed is the line for what a driver has thrown. Errors of the network have codes too.
exports.failed = (e) => typeof e.code === 'string' && /^[0-9A-Z]{5}$/.test(e.code) && e.severity
  ? ['error', e.code, e.message, e.detail || '', e.hint || '']
  : ['error', '', String(e.stack || e), '', '']

// main carries out commands with the verbs, each an async function(n, ...args) that returns lines.
exports.main = (verbs) => {
  const busy = new Map() // the last command of each connection
  readline.createInterface({ input: process.stdin }).on('line', (line) => {
    const [n, ...fields] = line.split('\t')
    const [verb, ...args] = fields.map(decode)
    const run = async () => {
      let lines
      try {
        lines = verbs[verb] ? await verbs[verb](n, ...args) || [] : [['no']]
      } catch (e) {
        lines = [exports.failed(e)]
      }
      process.stdout.write([...lines, ['done']].map((l) => [n, ...l.map(encode)].join('\t') + '\n').join(''))
    }
    busy.set(n, (busy.get(n) || Promise.resolve()).then(run))
  }).on('close', () => process.exit(0))
}
