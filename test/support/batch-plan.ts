import { createListedFields } from '../../shared/endpoints/fields/listed-fields.ts';
import { type PlanFile, parsePlanFile } from '../../shared/plan-file/plan-file.ts';
import type { LineRules } from '../../workers/batches/files/parse-line.ts';
import { patientConnecting, planFileFor } from '../stack/plan.ts';

type Given = Partial<Omit<Parameters<typeof planFileFor>[0], 'backends'>> & {
  urls?: readonly string[];
  /** Applies to each backend. */
  requestsAtOnce?: number | undefined;
};

/** The plan file of the stack with on-prem backends at these addresses, which need not be reachable. */
export function batchPlan({ urls = ['http://127.0.0.1:1/v1'], requestsAtOnce, ...given }: Given = {}): PlanFile {
  const room = requestsAtOnce === undefined ? {} : { requests_at_once: requestsAtOnce };
  const backends = urls.map((url, index) => [`onprem-${index + 1}`, { url, location: 'on-prem' as const, ...room }]);
  const parsed = parsePlanFile(
    planFileFor({
      ...given,
      timeouts: { ...patientConnecting, ...given.timeouts },
      backends: Object.fromEntries(backends),
    }),
  );
  if ('issues' in parsed) throw new Error(JSON.stringify(parsed.issues));
  return parsed.planFile;
}

/** The rules for lines with this plan file. */
export function lineRules(planFile: PlanFile): LineRules {
  const { models, aliases } = planFile;
  return { models, aliases, listedFields: createListedFields(planFile) };
}
