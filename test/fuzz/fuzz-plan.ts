import { parsePlanFile } from '../../shared/plan-file/plan-file.ts';
import { planText } from '../support/plan-text.ts';

/** The small plan file of the tests, with two backends on-prem, so that requests have affinity keys. */
export function fuzzPlan() {
  const parsed = parsePlanFile(
    planText(({ models, backends }) => {
      Object.assign(backends, { 'onprem-b': { ...backends['onprem-a'], url: 'http://127.0.0.1:8085/v1' } });
      models['small-chat'].backends.push('onprem-b');
    }),
  );
  if ('issues' in parsed) throw new Error('the plan file of the tests is invalid');
  return parsed.planFile;
}
