import type { IncomingMessage, ServerResponse } from 'node:http';
import type { CallList } from './calls.ts';
import { type Faults, faultSchema } from './faults.ts';
import { parseJson, readBody, sendError, sendJson } from './http.ts';

/** The control endpoints for tests. An unknown fault is rejected, because a misspelt one would prove nothing. */
export async function answerControl(
  req: IncomingMessage,
  res: ServerResponse,
  { faults, calls }: { faults: Faults; calls: CallList },
): Promise<void> {
  switch (`${req.method} ${req.url}`) {
    case 'PUT /control': {
      const parsed = faultSchema.safeParse(parseJson(await readBody(req)));
      if (!parsed.success) return sendError(res, 400, { message: parsed.error.message });
      faults.set(parsed.data);
      return sendJson(res, 200, parsed.data);
    }
    case 'DELETE /control':
      faults.clear();
      return sendJson(res, 200, {});
    case 'GET /control/calls':
      return sendJson(res, 200, calls.list());
    case 'DELETE /control/calls':
      calls.clear();
      return sendJson(res, 200, []);
    default:
      sendError(res, 404, { message: `Unknown control: ${req.method} ${req.url}` });
  }
}
