import test from 'ava';
import { excerptOf } from '../../../ingress/documentation/browser/search-box.ts';
import { readSearchIndex } from '../../../ingress/documentation/browser/search-index.ts';
import { readPages } from '../../../ingress/documentation/page-list.ts';
import { renderMarkdown } from '../../../ingress/documentation/render-markdown.ts';
import { buildSearchIndex, keywords } from '../../../ingress/pages/search-entries.ts';

const pages = readPages().map(({ name, markdown }) => ({
  name,
  ...renderMarkdown(markdown, { hrefOf: (page) => page }),
}));
const index = readSearchIndex(buildSearchIndex(pages));
const idsFor = (query: string) => index.find(query).map(({ id }) => id);

test('a code, a setting, a message and a header are found, the part that explains them first', (t) => {
  t.is(idsFor('rate_limit_exceeded')[0], 'errors#rate_limit_exceeded');
  t.is(idsFor('concurrency_limit')[0], 'errors#concurrency_limit');
  t.is(idsFor('Something went wrong on our side')[0], 'errors#INTERNAL_ERROR');
  t.true(idsFor('KEY_PEPPER').some((id) => id.startsWith('configuration')));
  t.true(idsFor('idempotency-key').some((id) => id.startsWith('retry-safely')));
});

test('words are found by their beginnings and with a typing error; a page is found by its title', (t) => {
  t.true(idsFor('webho').includes('webhooks'));
  t.is(idsFor('batches')[0], 'batches');
  t.true(idsFor('kubernets').includes('kubernetes'));
  t.true(idsFor('streaming').includes('streaming'));
});

test('the words that readers type for a part find it first, and each of these parts exists', (t) => {
  for (const [query, id] of Object.entries({
    key: 'quick-start#get-a-key',
    'get a key': 'quick-start#get-a-key',
    'How do I get a key?': 'quick-start#get-a-key',
    'api key': 'quick-start#get-a-key',
    ollama: 'model-servers#ollama',
    vllm: 'model-servers#vllm',
    TTFT: 'find-a-request#what-it-says',
    'rate limits': 'limits',
    429: 'limits',
    pricing: 'usage#cost',
    webhook: 'webhooks',
    SSO: 'sign-in',
    prometheus: 'monitoring#metrics',
    503: 'errors#SERVICE_UNAVAILABLE',
    migrate: 'move-from-openai',
  })) {
    t.is(idsFor(query)[0], id, query);
  }
  const parts = new Set(pages.flatMap(({ name, sections }) => [name, ...sections.map(({ id }) => `${name}#${id}`)]));
  for (const id of Object.keys(keywords)) t.true(parts.has(id), id);
});

test('all words count; if few parts have all of them, those with some follow', (t) => {
  const hasAll = ({ title, page, text }: { title: string; page: string; text: string }, words: readonly string[]) =>
    words.every((word) => `${title} ${page} ${text}`.toLowerCase().includes(word));
  const many = index.find('redis cluster');
  t.true(many.length >= 4);
  for (const found of many) t.true(hasAll(found, ['redis', 'cluster']), found.title);
  const few = index.find('webhook signature').map((found) => hasAll(found, ['webhook', 'signature']));
  t.true(few[0] && few.includes(false), String(few));
  t.deepEqual(
    few,
    few.toSorted((one, other) => Number(other) - Number(one)),
    'those with all words come first',
  );
  t.is(new Set(idsFor('webhook signature')).size, idsFor('webhook signature').length);
  t.true(idsFor('webhooks xylophone').length > 0);
  t.deepEqual(idsFor('xylophone'), []);
  t.deepEqual(idsFor(''), []);
});

test('pages for readers come before those about the internals, and there are at most twelve results', (t) => {
  const found = idsFor('lease');
  t.true(found.length <= 12);
  const limits = idsFor('tokens are reserved');
  t.true(limits[0]?.startsWith('limits'), String(limits));
});

test('an excerpt shows the text around the first word, with all words marked at their beginnings', (t) => {
  const text = `${'before '.repeat(30)}unlimited The limit is reached, and Limits are many. ${'after '.repeat(50)}`;
  const pieces = excerptOf(text, ['limit']);
  t.deepEqual(
    pieces.filter(({ isMatch }) => isMatch).map((piece) => piece.text),
    ['limit', 'Limit'],
  );
  const shown = pieces.map((piece) => piece.text).join('');
  t.true(shown.startsWith('… ') && shown.endsWith('…') && shown.length < 170, shown);
  t.true(shown.includes('unlimited The limit'));
  t.deepEqual(excerptOf('Short.', ['nothing']), [{ text: 'Short.', isMatch: false }]);
  t.deepEqual(excerptOf('a (b', ['(b']), [
    { text: 'a ', isMatch: false },
    { text: '(b', isMatch: true },
  ]);
  t.deepEqual(excerptOf('', []), [{ text: '', isMatch: false }]);
});
