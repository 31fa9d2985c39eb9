import { z } from 'zod';
import { isFileId } from '../../shared/store/file-store.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { nameFieldOf } from '../api/response-fields.ts';
import { named, type Route, route } from '../api/route.ts';
import type { RequestLookUp } from '../requests/find-requests.ts';

const findQuery = z.strictObject({
  text: z
    .string()
    .trim()
    .min(1)
    .max(300)
    .meta({
      description:
        'The beginning of the id of an account, or of a word of its display name, the first characters of a key (`svc_…`), or the id of a key, request, batch or file. A device is found by its account, `device:…`.',
      examples: ['user:al'],
    }),
});

const foundThing = z.strictObject({
  kind: z.enum(['account', 'key', 'request', 'batch', 'file']),
  id: z.string().meta({ description: 'Of an account its id; of a key what was searched for.' }),
  account: z.string().meta({ description: 'The account that it belongs to.' }),
  name: z.string().optional().meta({ description: 'The display name of the account.' }),
});

const foundThingsSchema = named(
  'FoundThings',
  z.strictObject({ object: z.literal('list'), data: z.array(foundThing) }),
);

export type FoundThing = z.infer<typeof foundThing>;

export const findRoutes: readonly Route[] = [
  /**
   * Whatever has this id or begins like this, of any account. Of a key only its first ten characters are used; the console
   * sends no more.
   */
  route({
    id: 'findAnything',
    method: 'GET',
    path: '/admin/find',
    access: 'operator',
    tag: 'Operators',
    summary: 'Find an account, key, request, batch or file',
    description: 'In all accounts. At most 20 accounts are returned.',
    query: findQuery,
    answers: {
      description: 'What was found; empty if nothing was.',
      schema: foundThingsSchema,
      example: { object: 'list', data: [{ kind: 'account', id: 'user:alice', account: 'user:alice' }] },
    },
    async handle({ query: { text } }, parts) {
      const found = await find(text, parts);
      const names = await parts.store.accounts.findNames([...new Set(found.map(({ account }) => account))]);
      return {
        object: 'list' as const,
        data: found.map((thing) => ({ ...thing, ...nameFieldOf(names, thing.account) })),
      };
    },
  }),
];

type FindParts = {
  store: Pick<Store, 'accounts' | 'batches'>;
  queue: { requestLookUp: Pick<RequestLookUp, 'findAny'> };
};

const accountsMax = 20;

/** `svc_` and the six characters that are stored of a key. */
const keyStartLength = 10;

async function find(text: string, { store, queue: { requestLookUp } }: FindParts): Promise<FoundThing[]> {
  if (text.startsWith('req_')) {
    const found = await requestLookUp.findAny(text);
    return found === undefined ? [] : [{ kind: 'request', id: found.request.requestId, account: found.account }];
  }
  if (text.startsWith('batch_')) {
    const batch = await store.batches.findBatch(text);
    return batch === undefined ? [] : [{ kind: 'batch', id: batch.id, account: batch.account }];
  }
  if (isFileId(text)) {
    const file = await store.batches.findFile(text);
    return file === undefined ? [] : [{ kind: 'file', id: file.id, account: file.account }];
  }
  if (text.startsWith('svc_')) {
    const start = text.slice(0, keyStartLength);
    const accounts = await store.accounts.findAccountsByKey({ start, limit: accountsMax });
    return accounts.map((account) => ({ kind: 'key', id: start, account }));
  }
  const withKey = text.startsWith('key_')
    ? await store.accounts.findAccountsByKey({ id: text, limit: accountsMax })
    : [];
  const accounts = await accountsNamed(text, store);
  return [
    ...withKey.map((account): FoundThing => ({ kind: 'key', id: text, account })),
    ...accounts.map((account): FoundThing => ({ kind: 'account', id: account, account })),
  ];
}

/** By the id, which without its kind is that of a user, and by the display name. */
async function accountsNamed(text: string, store: FindParts['store']): Promise<string[]> {
  const prefix = /^(user|device)(:|$)/.test(text) ? text : `user:${text}`;
  const [byId, byName] = await Promise.all([
    store.accounts.listAccounts({ prefix, limit: accountsMax }),
    store.accounts.findNamed(text, accountsMax),
  ]);
  return [...new Set([...byId, ...byName].map(({ id }) => id))];
}
