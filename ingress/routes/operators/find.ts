import { z } from 'zod';
import { isFileId } from '../../../shared/store/files/file-store.ts';
import type { Store } from '../../../shared/store/store.ts';
import { parseQuery } from '../../api/list-query.ts';
import type { Stage } from '../../request-state.ts';
import type { RequestLookUp } from '../../requests/request-look-up.ts';
import { named } from './accounts/named-account.ts';

export const findQuery = z.strictObject({
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

export const foundThing = z.strictObject({
  kind: z.enum(['account', 'key', 'request', 'batch', 'file']),
  id: z.string().meta({ description: 'Of an account its id; of a key what was searched for.' }),
  account: z.string().meta({ description: 'The account that it belongs to.' }),
  name: z.string().optional().meta({ description: 'The display name of the account.' }),
});

export const foundThings = z.strictObject({ object: z.literal('list'), data: z.array(foundThing) });

export type FoundThing = z.infer<typeof foundThing>;

type Deps = {
  store: Pick<Store, 'accounts' | 'batches'>;
  requestLookUp: Pick<RequestLookUp, 'findAny'>;
};

const accountsMax = 20;
/** `svc_` and the six characters that are stored of a key. */
const keyStartLength = 10;

/**
 * `GET /admin/find`: whatever has this id or begins like this, of any account. Of a key only its first ten characters are used; the console
 * sends no more.
 */
export function findAnything(deps: Deps): Stage {
  return async function findAnything(ctx) {
    const { text } = parseQuery(findQuery, ctx.querystring);
    const found = await find(text, deps);
    const names = await deps.store.accounts.findNames([...new Set(found.map(({ account }) => account))]);
    ctx.body = { object: 'list', data: found.map((thing) => ({ ...thing, ...named(names, thing.account) })) };
  };
}

async function find(text: string, { store, requestLookUp }: Deps): Promise<FoundThing[]> {
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
async function accountsNamed(text: string, store: Deps['store']): Promise<string[]> {
  const prefix = /^(user|device)(:|$)/.test(text) ? text : `user:${text}`;
  const [byId, byName] = await Promise.all([
    store.accounts.listAccounts({ prefix, limit: accountsMax }),
    store.accounts.findNamed(text, accountsMax),
  ]);
  return [...new Set([...byId, ...byName].map(({ id }) => id))];
}
