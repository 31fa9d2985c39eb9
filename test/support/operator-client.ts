import { createKeyClient, type KeyClient } from './key-client.ts';

export type ShownRequest = { id: string; state: string; outcome: string | null; model: string };
export type ShownRecord = { actor: string; address: string; change: object; reason: string | null };

/** What an operator does, at the first ingress of the stack unless another client of an ingress is given. */
export function createOperatorClient(stack: Parameters<typeof createKeyClient>[0]) {
  const first = createKeyClient(stack);

  /** A call that comes from one address if `TRUST_PROXY` is 1. */
  async function operate(method: string, path: string, body?: object, keys: KeyClient = first) {
    const headers = { 'x-forwarded-for': '198.51.100.9' };
    return keys.send(method, path, { bearer: await keys.token('olga', true), headers, ...(body && { body }) });
  }

  async function requestsOf(account: string): Promise<ShownRequest[]> {
    const { body } = await operate('GET', `/admin/accounts/${account}/requests`);
    return body.data as ShownRequest[]; // a list of the service itself
  }

  return {
    operate,
    requestsOf,
    /** The account's requests, once they hold this. */
    async until(account: string, holds: (requests: ShownRequest[]) => boolean): Promise<ShownRequest[]> {
      for (;;) {
        const found = await requestsOf(account);
        if (holds(found)) return found;
      }
    },
    /** Of what this operator did, unless another actor is given. */
    async auditOf(account: string, actor = 'user:olga'): Promise<ShownRecord[]> {
      const { body } = await operate('GET', `/admin/audit?account=${account}&actor=${actor}`);
      return body.data as ShownRecord[]; // a list of the service itself
    },
    endRequest: (id: string, body: object = {}, keys?: KeyClient) =>
      operate('POST', `/admin/requests/${id}/cancel`, body, keys),
    cancelBatch: (id: string, body: object = {}, keys?: KeyClient) =>
      operate('POST', `/admin/batches/${id}/cancel`, body, keys),
  };
}

export type OperatorClient = ReturnType<typeof createOperatorClient>;
