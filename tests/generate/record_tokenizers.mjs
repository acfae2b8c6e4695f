// Records what Hugging Face's own tokenizers library (its Rust code, through the npm package @anush008/tokenizers) makes
// of small tokenizers that between them use every component Ferry knows:
//   npm install @anush008/tokenizers && node record_tokenizers.mjs BASE_TOKENIZER.json > tests/data/generate/tokenizers.json
// BASE_TOKENIZER.json is the byte-level BPE of tests/data/generate, whose merges the others borrow.
import { createRequire } from 'node:module';
import fs from 'node:fs';
const { Tokenizer } = createRequire(process.cwd() + '/')('@anush008/tokenizers');

const base = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
const token = (id, content, more = {}) => ({
  id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true, ...more });
const bpe = (vocab, merges, more = {}) => ({
  type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null,
  fuse_unk: false, byte_fallback: false, ignore_merges: false, vocab, merges, ...more });
const whole = (parts) => ({
  version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null, pre_tokenizer: null,
  post_processor: null, decoder: null, ...parts });

// The first 400 merges, with the letters of bytes or with characters.
const merges = base.model.merges.slice(0, 400);
function vocabularyOf(special, letters, pairs) {
  const vocab = {};
  for (const each of [...special, ...letters, ...pairs.map(([a, b]) => a + b)])
    if (!(each in vocab)) vocab[each] = Object.keys(vocab).length;
  return vocab;
}
const byteLetters = Object.keys(base.model.vocab).filter((t) => [...t].length === 1);
const small = vocabularyOf(['<|endoftext|>'], byteLetters, merges);
const spaced = merges.map(([a, b]) => [a.replaceAll('Ġ', '▁'), b.replaceAll('Ġ', '▁')])
  .filter(([a, b]) => /^[\x21-\x7e▁]+$/.test(a + b));
const letters = [...'▁abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?\'"-()é'];
const bytes = Array.from({ length: 256 }, (_, b) => `<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`);
const usable = (set, pairs) => { const known = new Set(set); return pairs.filter(([a, b]) =>
  known.has(a) && known.has(b) && known.add(a + b)); };
const spacedMerges = usable(letters, spaced);
const split = (regex, behavior = 'Isolated', invert = false) => ({ type: 'Split', pattern: { Regex: regex }, behavior, invert });
const sequence = (key, ...parts) => ({ type: 'Sequence', [key]: parts });
const gpt4 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const qwen = gpt4.replace('\\p{N}{1,3}', '\\p{N}');
const gpt4o = "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const bare = { ...byteLevel, use_regex: false };
const wordPieces = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', ...'abcdefghijklmnopqrstuvwxyz0123456789.,!?\'"()-中文é',
  ...[...'abcdefghijklmnopqrstuvwxyz0123456789é'].map((c) => '##' + c), 'the', 'of', 'and', 'to', 'in', 'is', 'file', '##ing', '##ed',
  '##er', '##s', 'return', 'this', 'that', 'un', '##able', 'token', '##ize', '##izer', 'do', '##n', 'hello', 'world', 'cafe', '##é'];
const wordVocab = Object.fromEntries([...new Set(wordPieces)].map((t, i) => [t, i]));
const scores = (extra = []) => [['<unk>', 0], ['<s>', 0], ['</s>', 0], ...extra.map((t) => [t, 0]),
  ...[...new Set([...letters.filter((l) => l !== 'é'), ...spacedMerges.map(([a, b]) => a + b)])]
    .map((t, i) => [t, -1.5 - i * 0.013 - 0.4 / [...t].length])];
// A table as SentencePiece compiles it would be large; this double-array trie says: ﬁ to fi, A0 to a blank, ½ to 1/2.
function charsMap(pairs) {
  const units = new Array(4096).fill(0), texts = []; let blob = Buffer.alloc(0);
  const root = {}; for (const [from, to] of pairs) { let at = root; for (const b of Buffer.from(from)) at = at[b] ??= {};
    at.value = blob.length; blob = Buffer.concat([blob, Buffer.from(to), Buffer.from([0])]); }
  let next = 1; const used = new Set([0]);
  const place = (node, index) => {
    const labels = Object.keys(node).filter((k) => k !== 'value').map(Number); const all = node.value !== undefined ? [0, ...labels] : labels;
    let offset = next; while (all.some((l) => used.has(index ^ offset ^ l) || (index ^ offset ^ l) >= 4096) || offset < 1) ++offset;
    units[index] = (units[index] | (offset << 10) | (node.value !== undefined ? 1 << 8 : 0)) >>> 0;
    for (const l of all) used.add(index ^ offset ^ l);
    if (node.value !== undefined) units[index ^ offset] = (node.value | 0x80000000) >>> 0;
    for (const l of labels) { units[index ^ offset ^ l] = l; place(node[l], index ^ offset ^ l); } };
  place(root, 0);
  const trie = Buffer.alloc(4096 * 4); units.forEach((u, i) => trie.writeUInt32LE(u >>> 0, i * 4));
  const size = Buffer.alloc(4); size.writeUInt32LE(trie.length);
  return Buffer.concat([size, trie, blob]).toString('base64');
}

const tokenizers = {
  gpt2: whole({ pre_tokenizer: byteLevel, decoder: byteLevel, model: bpe(small, merges), post_processor: byteLevel,
    added_tokens: [token(0, '<|endoftext|>')] }),
  gpt2_prefix: whole({ pre_tokenizer: { ...byteLevel, add_prefix_space: true }, decoder: byteLevel, model: bpe(small, merges),
    post_processor: { type: 'RobertaProcessing', sep: ['<|endoftext|>', 0], cls: ['<|endoftext|>', 0], trim_offsets: true, add_prefix_space: true },
    added_tokens: [token(0, '<|endoftext|>'), token(657, '<mask>', { lstrip: true }), token(658, 'user', { special: false, single_word: true, normalized: true })] }),
  llama3: whole({ pre_tokenizer: sequence('pretokenizers', split(gpt4), bare), decoder: byteLevel,
    model: bpe({ ...small, 'Ġwonderfully': 657 }, merges, { ignore_merges: true }),
    post_processor: sequence('processors', byteLevel, { type: 'TemplateProcessing',
      single: [{ SpecialToken: { id: '<|begin|>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
      pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 1 } }],
      special_tokens: { '<|begin|>': { id: '<|begin|>', ids: [658], tokens: ['<|begin|>'] } } }),
    added_tokens: [token(0, '<|endoftext|>'), token(658, '<|begin|>'), token(659, '<|eot_id|>'), token(660, '<|eot|>')] }),
  qwen: whole({ normalizer: { type: 'NFC' }, pre_tokenizer: sequence('pretokenizers', split(qwen), bare), decoder: byteLevel,
    model: bpe(small, merges.map(([a, b]) => a + ' ' + b)), added_tokens: [token(0, '<|endoftext|>'), token(657, '<|im_end|>', { rstrip: true })] }),
  gpt4o: whole({ pre_tokenizer: sequence('pretokenizers', split(gpt4o, 'Removed', true), bare), decoder: byteLevel, model: bpe(small, merges) }),
  deepseek: whole({ pre_tokenizer: sequence('pretokenizers', split('\\p{N}{1,3}'), split('[一-龥぀-ゟ゠-ヿ]+'),
    split('[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+'), bare),
    decoder: byteLevel, model: bpe(small, merges) }),
  bloom: whole({ pre_tokenizer: sequence('pretokenizers', split(' ?[^(\\s|[.,!?…。，、।۔،])]+'), bare), decoder: byteLevel, model: bpe(small, merges) }),
  digits: whole({ pre_tokenizer: sequence('pretokenizers', { type: 'Digits', individual_digits: true }, byteLevel), decoder: byteLevel, model: bpe(small, merges) }),
  punctuation: whole({ pre_tokenizer: sequence('pretokenizers', { type: 'Punctuation', behavior: 'Contiguous' }, { type: 'Digits', individual_digits: false }, byteLevel), decoder: byteLevel, model: bpe(small, merges) }),
  llama2: whole({ normalizer: sequence('normalizers', { type: 'Prepend', prepend: '▁' }, { type: 'Replace', pattern: { String: ' ' }, content: '▁' }),
    decoder: sequence('decoders', { type: 'Replace', pattern: { String: '▁' }, content: ' ' }, { type: 'ByteFallback' }, { type: 'Fuse' }, { type: 'Strip', content: ' ', start: 1, stop: 0 }),
    model: bpe(vocabularyOf(['<unk>', '<s>', '</s>'], [...bytes, ...letters], spacedMerges), spacedMerges, { unk_token: '<unk>', fuse_unk: true, byte_fallback: true }),
    post_processor: { type: 'TemplateProcessing', single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
      pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 1 } }], special_tokens: { '<s>': { id: '<s>', ids: [1], tokens: ['<s>'] } } },
    added_tokens: [token(0, '<unk>'), token(1, '<s>'), token(2, '</s>')] }),
  metaspace_first: whole({ pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: false },
    decoder: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: false },
    model: bpe(vocabularyOf(['<unk>', '<s>'], letters, spacedMerges), spacedMerges, { unk_token: '<unk>', fuse_unk: false }),
    added_tokens: [token(0, '<unk>'), token(1, '<s>')] }),
  metaspace_never: whole({ pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'never', split: true },
    decoder: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'never', split: true },
    model: bpe(vocabularyOf(['<unk>'], letters, spacedMerges), spacedMerges, { unk_token: '<unk>', fuse_unk: true }) }),
  clip: whole({ normalizer: sequence('normalizers', { type: 'NFC' }, { type: 'Replace', pattern: { Regex: '\\s+' }, content: ' ' }, { type: 'Lowercase' }),
    pre_tokenizer: sequence('pretokenizers', split("'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+", 'Removed', true), bare),
    decoder: { type: 'BPEDecoder', suffix: '</w>' },
    model: bpe(vocabularyOf([], [...byteLetters, ...byteLetters.map((l) => l + '</w>'), 'th'], [['th', 'e</w>'], ['i', 's</w>']]), [['t', 'h'], ['th', 'e</w>'], ['i', 's</w>']],
      { end_of_word_suffix: '</w>' }) }),
  bert: whole({ normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true },
    pre_tokenizer: { type: 'BertPreTokenizer' }, decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
    post_processor: { type: 'BertProcessing', sep: ['[SEP]', 3], cls: ['[CLS]', 2] },
    model: { type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 20, vocab: wordVocab },
    added_tokens: [token(0, '[PAD]'), token(1, '[UNK]'), token(2, '[CLS]'), token(3, '[SEP]'), token(4, '[MASK]')] }),
  bert_cased: whole({ normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: false, strip_accents: false, lowercase: false },
    pre_tokenizer: { type: 'Whitespace' }, decoder: { type: 'WordPiece', prefix: '##', cleanup: false },
    model: { type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 100, vocab: wordVocab } }),
  word_level: whole({ normalizer: sequence('normalizers', { type: 'NFD' }, { type: 'StripAccents' }, { type: 'Lowercase' }, { type: 'Strip', strip_left: true, strip_right: true }),
    pre_tokenizer: { type: 'WhitespaceSplit' }, model: { type: 'WordLevel', vocab: wordVocab, unk_token: '[UNK]' } }),
  delimiter: whole({ normalizer: { type: 'NFKD' }, pre_tokenizer: { type: 'CharDelimiterSplit', delimiter: '-' }, decoder: { type: 'Fuse' }, model: { type: 'WordLevel', vocab: wordVocab, unk_token: '[UNK]' } }),
  t5: whole({ normalizer: sequence('normalizers', { type: 'Precompiled', precompiled_charsmap: charsMap([['ﬁ', 'fi'], ['\u00a0', ' '], ['½', '1/2'], ['e\u0301', 'é'], ['Ａ', 'A'], ['\u200b', '']]) },
      { type: 'Strip', strip_left: false, strip_right: true }, { type: 'Replace', pattern: { Regex: ' {2,}' }, content: '▁' }),
    pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true },
    decoder: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true },
    post_processor: { type: 'TemplateProcessing', single: [{ Sequence: { id: 'A', type_id: 0 } }, { SpecialToken: { id: '</s>', type_id: 0 } }],
      pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 0 } }], special_tokens: { '</s>': { id: '</s>', ids: [2], tokens: ['</s>'] } } },
    model: { type: 'Unigram', unk_id: 0, vocab: scores(), byte_fallback: false }, added_tokens: [token(0, '<unk>'), token(1, '<s>'), token(2, '</s>')] }),
  unigram_bytes: whole({ normalizer: sequence('normalizers', { type: 'Nmt' }, { type: 'NFKC' }), pre_tokenizer: sequence('pretokenizers', { type: 'WhitespaceSplit' }, { type: 'Metaspace', replacement: '▁', add_prefix_space: true }),
    decoder: sequence('decoders', { type: 'ByteFallback' }, { type: 'Metaspace', replacement: '▁', add_prefix_space: true }),
    model: { type: 'Unigram', unk_id: 0, vocab: scores(bytes), byte_fallback: true }, added_tokens: [token(0, '<unk>')] }),
  merged_next: whole({ pre_tokenizer: split('[.,!?]', 'MergedWithNext'), decoder: { type: 'CTC', pad_token: 'a', word_delimiter_token: '|', cleanup: true },
    model: bpe(vocabularyOf(['<unk>'], [...letters, ' ', '|'], []), [], { unk_token: '<unk>' }) }),
  merged_previous: whole({ pre_tokenizer: split('[.,!?]|\\b(?=t)|(?<=a)n++', 'MergedWithPrevious'),
    model: bpe(vocabularyOf(['<unk>'], [...letters, ' '], [['t', 'h']]), [['t', 'h']], { unk_token: '<unk>', fuse_unk: true }) }),
};

const texts = ['', ' ', 'Hello, world!', 'This program is free software', "I'll don't WE'VE it's 'S o'clock", '  two  spaces   and\n\n lines \r\n\t tabs \n',
  'Numbers: 1234567 3.14 ½ ²³ Ⅷ ٣٤٥', 'naïve café cafe\u0301 ÀÉÎ İstanbul ß ﬁne ﬀ', '中文字符 and 日本語テキスト かな 한국어', 'emoji 👍🏽 👨‍👩‍👧 🇩🇪!', 'Привет мир. Γειά σου',
  'العربية हिन्दी ไทย', '<|endoftext|>The<|endoftext|> end', 'a <mask> b<mask>c superuser user users user.', '<s>[CLS] x [MASK]</s> [SEP]<unk>', '<|eot|><|eot_id|>  x<|im_end|>   y',
  'unable tokenizers tokenizing the file returned', 'zero\u200bwidth nbsp\u00a0here\u2028line\u3000wide', 'control\u0001\u0007chars\u007f \ufffd tail', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'x = foo(bar)[3] // comment\n    return self.x; #!',
  '(parens) "quotes" …ellipsis — dash ‘curly’', 'mixedCase HTTPServer iOS McDonald', 'antenna that, then? the. ,.!', 'co-op well-known file-in', ' wonderfully  wonderfully wonderful', 'e\u0301\u0301 \u0344 Å Ω Ａ', 'half 𝒳 math 𐍈 gothic'];

const out = [];
for (const [name, tokenizer] of Object.entries(tokenizers)) {
  const real = Tokenizer.fromString(JSON.stringify(tokenizer));
  const cases = [];
  for (const text of texts) {
    const ids = (await real.encode(text, null, { addSpecialTokens: true })).getIds();
    const plain = (await real.encode(text, null, { addSpecialTokens: false })).getIds();
    cases.push({ text, ids: [...ids], plain: [...plain], decoded: await real.decode([...ids], true), with_special: await real.decode([...ids], false) });
  }
  out.push({ name, tokenizer, cases });
}
console.log('[\n' + out.map((each) => JSON.stringify(each)).join(',\n') + '\n]');
