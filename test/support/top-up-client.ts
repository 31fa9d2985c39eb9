import {
  type CreatedTopUpCode,
  createdTopUpCodesSchema,
  topUpCodeListSchema,
} from '../../ingress/routes/top-up-codes.ts';
import type { Answer, KeyClient } from './key-client.ts';

/** The routes for overage and top-up codes, with the tokens of their callers. */
export function createTopUpClient(keys: KeyClient) {
  const asOperator = async (method: string, path: string, body?: unknown): Promise<Answer> =>
    keys.send(method, path, { bearer: await keys.token('olga', true), body });
  return {
    async create(wanted: {
      tokens: number;
      count?: number;
      expires_at?: number;
      note?: string;
    }): Promise<CreatedTopUpCode[]> {
      return createdTopUpCodesSchema.parse((await asOperator('POST', '/admin/top-up-codes', wanted)).body).data;
    },
    list: async (query = '') =>
      topUpCodeListSchema.parse((await asOperator('GET', `/admin/top-up-codes${query}`)).body).data,
    revoke: (id: string) => asOperator('DELETE', `/admin/top-up-codes/${id}`),
    redeem: (account: string, code: string) => keys.signedIn(account, 'POST', '/billing/top-ups', { code }),
    setOverage: (account: string, enabled: boolean) => keys.signedIn(account, 'PATCH', '/billing/overage', { enabled }),
    quota: (account: string) => keys.signedIn(account, 'GET', '/billing/quota'),
  };
}
