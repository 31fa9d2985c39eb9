import { createRests } from '../../shared/concurrency/in-turn.ts';
import type { AffinityKeys } from '../../shared/endpoints/affinity-keys.ts';
import type { Endpoint, EndpointHeaders } from '../../shared/endpoints/definition/endpoint.ts';
import { type ReadOptions, readCall as readBody } from '../../shared/endpoints/definition/read-call.ts';
import { listedFieldsOf } from '../../shared/endpoints/fields/listed-fields.ts';
import { countRefusedFields } from '../../shared/process/metrics.ts';
import { modelNotFound, noSuchModel } from '../api/plan-models.ts';
import { largeBytesMin } from '../listener/body-budget.ts';
import { passedHeaders } from '../listener/request-headers.ts';
import type { IngressMetrics } from '../metrics.ts';
import { type Stage, stateOf } from '../request-state.ts';

/**
 * Returns the stage of each endpoint that reads the body as a call. It fails with 400 for an invalid field, an unknown model, or a field
 * that the plan file does not list (contract.md#d3-unknown-model). What the backend does not get is named in `x-svc-dropped`.
 */
export function readCalls({
  metrics,
  affinityKeys,
}: {
  metrics: Pick<IngressMetrics, 'refusedFields'>;
  affinityKeys: AffinityKeys;
}): (endpoint: Endpoint) => Stage {
  const rest = createRests();
  return (endpoint) =>
    async function readCall(ctx, next) {
      const since = performance.now();
      const { account, plan } = stateOf(ctx, 'caller');
      const planFile = stateOf(ctx, 'planFile');
      const { models, aliases } = planFile;
      const rule = listedFieldsOf(planFile);
      const noSuch = (name: string) => {
        const text = noSuchModel(name, plan, planFile);
        // Clients that want errors in a shape of their own act on this status.
        if (ctx.state.errorFormat !== undefined) throw modelNotFound(text);
        return text;
      };
      try {
        const sent = passedHeaders(ctx.req, endpoint.headers.passedOn);
        const affinityOf: ReadOptions['affinityOf'] = (asked, request, model) =>
          affinityKeys(asked, request, { planFile, model, account });
        const options = { models, aliases, rule, noSuchModel: noSuch, affinityOf };
        const { dropped, ...call } = readBody(endpoint, stateOf(ctx, 'body'), options);
        const isListed = (name: string) => rule.isListed(name, call.model);
        const headers = sent && readHeaders(sent, endpoint.headers, isListed);
        ctx.state.model = call.model;
        ctx.state.call = headers === undefined ? call : { ...call, headers: headers.kept };
        const allDropped = [...dropped, ...(headers?.dropped ?? [])];
        if (allDropped.length > 0) ctx.res.setHeader('x-svc-dropped', droppedHeader(allDropped));
      } catch (error) {
        countRefusedFields(metrics, endpoint.path, error);
        throw error;
      }
      // From now on memory holds the request only as it will be queued, not also its text and its parsed body.
      ctx.state.body = undefined;
      if (stateOf(ctx, 'call').payload.length >= largeBytesMin) await rest(performance.now() - since);
      return next();
    };
}

type Headers = Readonly<Record<string, string>>;

/** Lets the endpoint read the headers that its backend gets. */
function readHeaders(sent: Headers, { read = {} }: EndpointHeaders, isListed: (name: string) => boolean) {
  const dropped: string[] = [];
  const kept = Object.entries(sent).map(([name, value]) => {
    const known = read[name]?.(value, isListed);
    dropped.push(...(known?.dropped ?? []));
    return [name, known?.kept ?? value] as const;
  });
  return { kept: Object.fromEntries(kept.filter(([, value]) => value !== '')), dropped };
}

const nameLengthMax = 64;
const namesMax = 20;

/** Clients choose some of these names. */
function droppedHeader(names: readonly string[]): string {
  const different = [...new Set(names)];
  const shown = different.slice(0, namesMax).map((name) => {
    const safe = name.slice(0, nameLengthMax + 1).replace(/[^\w.:/-]/g, '?') || '?';
    return safe.length > nameLengthMax ? `${safe.slice(0, nameLengthMax)}...` : safe;
  });
  const more = different.length - shown.length;
  return [...shown, ...(more > 0 ? [`and ${more} more`] : [])].join(', ');
}
