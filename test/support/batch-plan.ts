import { createListedFields } from '../../shared/chat-call/listed-fields.ts';
import { type PlanFile, parsePlanFile } from '../../shared/process/plan-file.ts';
import type { LineRules } from '../../workers/batches/files/parse-line.ts';
import { planFileFor } from '../stack/plan.ts';

type Given = Partial<Omit<Parameters<typeof planFileFor>[0], 'backends'>> & {
  urls?: readonly string[];
  /** Of each backend. */
  requestsAtOnce?: number | undefined;
};

/** The plan file of the stack with on-prem backends at these addresses, of which nobody has to listen. */
export function batchPlan({ urls = ['http://127.0.0.1:1/v1'], requestsAtOnce, ...given }: Given = {}): PlanFile {
  const room = requestsAtOnce === undefined ? {} : { requests_at_once: requestsAtOnce };
  const backends = urls.map((url, index) => [`onprem-${index + 1}`, { url, location: 'on-prem' as const, ...room }]);
  const parsed = parsePlanFile(planFileFor({ ...given, backends: Object.fromEntries(backends) }));
  if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
  return parsed.planFile;
}

/** What lines may ask for by this plan file. */
export function lineRules(planFile: PlanFile): LineRules {
  return { models: planFile.models, listedFields: createListedFields(planFile) };
}
