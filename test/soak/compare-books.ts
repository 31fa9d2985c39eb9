import type { UsageRecord } from '../../shared/store/usage/usage-record.ts';
import type { Call } from '../stack/model-server-calls.ts';

export type Charged = Pick<UsageRecord, 'outcome' | 'chargedTokens'>;
type Served = Pick<Call, 'requestId' | 'state' | 'promptTokens' | 'completionTokens'>;
type Evidence = {
  /** Requests that clients got a whole answer of. */
  answered: readonly string[];
  records: ReadonlyMap<string, Charged>;
  calls: readonly Served[];
};

/**
 * What clients were answered beside what is written down of it and what model servers have served: each of these counts is 0
 * where usage is neither lost nor counted twice. A call that failed and was made again elsewhere is served once.
 */
export function compareBooks({ answered, records, calls }: Evidence): Record<string, number> {
  const served = Map.groupBy(
    calls.filter(({ state }) => state === 'completed'),
    ({ requestId = '' }) => requestId,
  );
  const found = {
    'answered twice under one id': answered.length - new Set(answered).size,
    'answered, without a usage record': 0,
    'answered, and no model server has served it': 0,
    'served twice': 0,
    'charged other tokens than were served': 0,
  };
  for (const id of new Set(answered)) {
    const [ofRequest, record] = [served.get(id) ?? [], records.get(id)];
    const [first] = ofRequest;
    if (record?.outcome !== 'completed') found['answered, without a usage record'] += 1;
    if (first === undefined) found['answered, and no model server has served it'] += 1;
    if (ofRequest.length > 1) found['served twice'] += 1;
    const tokens = (first?.promptTokens ?? 0) + (first?.completionTokens ?? 0);
    if (record !== undefined && first !== undefined && record.chargedTokens !== tokens)
      found['charged other tokens than were served'] += 1;
  }
  return found;
}
