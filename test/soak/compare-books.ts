import type { UsageRecord } from '../../shared/store/usage/usage-record.ts';
import type { Call } from '../stack/model-server/calls.ts';

export type ChargedRecord = Pick<UsageRecord, 'outcome' | 'chargedTokens'>;
type Served = Pick<Call, 'requestId' | 'state' | 'promptTokens' | 'completionTokens'>;
type Evidence = {
  /** Requests with a complete answer. */
  answered: readonly string[];
  records: ReadonlyMap<string, ChargedRecord>;
  calls: readonly Served[];
};

/**
 * Compares the clients' answers with the usage records and with the calls of the model servers. Each count is 0 if no usage is lost or
 * counted twice. A call that failed and was repeated on another server counts as served once.
 */
export function compareBooks({ answered, records, calls }: Evidence): Record<string, number> {
  const served = Map.groupBy(
    calls.filter(({ state }) => state === 'completed'),
    ({ requestId = '' }) => requestId,
  );
  const found = {
    'answered twice with one id': answered.length - new Set(answered).size,
    'answered, but without a usage record': 0,
    'answered, but served by no model server': 0,
    'served twice': 0,
    'charged tokens differ from served tokens': 0,
  };
  for (const id of new Set(answered)) {
    const [ofRequest, record] = [served.get(id) ?? [], records.get(id)];
    const [first] = ofRequest;
    if (record?.outcome !== 'completed') found['answered, but without a usage record'] += 1;
    if (first === undefined) found['answered, but served by no model server'] += 1;
    if (ofRequest.length > 1) found['served twice'] += 1;
    const tokens = (first?.promptTokens ?? 0) + (first?.completionTokens ?? 0);
    if (record !== undefined && first !== undefined && record.chargedTokens !== tokens)
      found['charged tokens differ from served tokens'] += 1;
  }
  return found;
}
