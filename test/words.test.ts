import { readFileSync } from 'node:fs';
import test from 'ava';
import { productionFiles, projectFiles } from './support/source-files.ts';

/** Words that are not plain, current technical English, and what to write instead. */
const replacements: Readonly<Record<string, string>> = {
  'who(m)?ever': 'who, the caller, the process that',
  '(no|some|any|every)body': 'no one, a client, anyone, all callers',
  anew: 'again',
  'of late': 'recently',
  'in vain': 'without success',
  'but for': 'except',
  'by (itself|themselves)': 'automatically, on its own',
  '(is|are|was|were|been) told': 'is reported, receives',
  'amid(st)?': 'among, during',
  'as ever': 'as before, unchanged',
  'look(s|ed|ing)? after': 'manages, supervises, checks',
  'see(s|n)? to it': 'ensures',
  'hand(s|ed|ing)? in': 'submits, uploads',
  'in hand': 'in progress, held',
  'fall(s)? ill': 'fails',
  'affair(s)? of': 'belongs to, is the error of',
  'c(a|o)m(e|es|ing) into being': 'is created',
  oneself: 'yourself',
  "one's": 'your, its',
  'at the (least|most)(?=[,.;:)])': 'at least, at most',
  'beside (what|which)': 'in addition to',
  'all the same': 'still, anyway',
  'goes on': 'continues',
  'for want of': 'because there is no',
  'spare(s|d) the': 'saves, avoids',
  'here(in|of|by|upon)|there(in|of|by|upon)|where(in|of|by|upon)': 'in it, of it, so that',
  'hence|lest|whilst|shall|unto|ought to': 'so, in case, while, must, to, should',
};

const words = new RegExp(`(?<![\\w'-])(${Object.keys(replacements).join('|')})(?![\\w-])`, 'gi');

/** The text as it is read: comments that are wrapped are one line. */
function asRead(text: string): string {
  return text.replace(/\n[ \t]*(?:\*(?!\/)|\/\/|--|#)?[ \t]*/g, ' ');
}

function wordsIn(text: string): string[] {
  return [...asRead(text).matchAll(words)].map(([word]) => word);
}

/** Words in names of the code that are not terms of the field, and what to write instead. A name in camel case is several words. */
const nameReplacements: Readonly<Record<string, string>> = {
  'keepers?': 'lock, scheduler',
  'troubles?': 'issues, errors',
  'tend(s|ing)?': 'expire, renew, supervise',
  lasting: 'durable',
  'in hand': 'running, inProgress, held',
  'under ?way': 'running, inProgress, flushing',
  'let in': 'admitted',
  standing: 'counters',
};

const wordsOfNames = new RegExp(`\\b(${Object.keys(nameReplacements).join('|')})\\b`, 'i');
const comment = /\/\*[\s\S]*?\*\/|(?<!:)\/\/.*/g;

/** Names that contain such a word. */
function wrongNames(text: string): string[] {
  const names = new Set(text.replace(comment, '').match(/[A-Za-z_]\w*/g));
  return [...names].filter((name) => wordsOfNames.test(name.replace(/_/g, ' ').replace(/(?<=[a-z\d])(?=[A-Z])/g, ' ')));
}

const textFile = /\.(ts|mjs|lua|css|md|yaml|yml|json|py|java|xml)$|(^|\/)\.[\w./-]+$/;
/** Data of tests, packages of others, and the list above. */
const notOurs = /^(package-lock\.json$|test\/fuzz\/seeds\/|test\/words\.test\.ts$)/;

test('every text of the project is in plain English', (t) => {
  const files = projectFiles().filter((path) => textFile.test(path) && !notOurs.test(path));
  t.true(files.length > 1_000, `${files.length} files`);
  const found = files.flatMap((path) => {
    const text = readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');
    return [...new Set(wordsIn(text))].map((word) => `${path}: ${word}`);
  });
  t.deepEqual(found, []);
});

test('names in the code are terms of the field', (t) => {
  const found = productionFiles().flatMap(({ path, text }) => wrongNames(text).map((name) => `${path}: ${name}`));
  t.deepEqual(found, []);
});

test('a name that is not a term of the field is found within a longer name', (t) => {
  t.deepEqual(wrongNames('const lineKeeper = flushUnderWay(calls.lasting(), "svc:x"); // keeper'), [
    'lineKeeper',
    'flushUnderWay',
    'lasting',
  ]);
  t.deepEqual(wrongNames('/** A\n keeper */ const jobs_in_hand = letInAll + tendLeases(standingOf);'), [
    'jobs_in_hand',
    'letInAll',
    'tendLeases',
    'standingOf',
  ]);
  t.deepEqual(wrongNames('let inside = outstanding(extends, pretend);'), []);
});

test('a word that is not plain is found, also across the lines of a comment', (t) => {
  t.deepEqual(wordsIn('// Whoever asks is told so, but\n// for guests; it starts anew.'), [
    'Whoever',
    'is told',
    'but for',
    'anew',
  ]);
  t.deepEqual(wordsIn('/**\n * Done by\n * itself.\n */'), ['by itself']);
  t.deepEqual(wordsIn('It was renewed; a newcomer is retold nothing. But forks stay.'), []);
  t.deepEqual(wordsIn('local a = 1 -- of\n-- late'), ['of late']);
});
