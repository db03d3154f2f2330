// Small plots: each has a sentence beside it that says the same.

export interface Series {
  name: string;
  points: [number, number][];
}

const WIDTH = 320;
const HEIGHT = 96;

// Lines over a common horizontal axis; each series has its own vertical range.
export function LinePlot(props: { series: Series; label: string; range?: [number, number]; dots?: boolean }) {
  const { points } = props.series;
  if (points.length < (props.dots ? 1 : 2)) return null;
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  const [low, high] = props.range ?? [Math.min(...ys), Math.max(...ys)];
  const first = Math.min(...xs);
  const scaleX = (WIDTH - 8) / Math.max(Math.max(...xs) - first, 1e-9);
  const scaleY = (HEIGHT - 12) / Math.max(high - low, 1e-9);
  const places = points.map(([x, y]) => [(4 + (x - first) * scaleX).toFixed(1), (HEIGHT - 6 - (y - low) * scaleY).toFixed(1)] as const);
  const last = ys[ys.length - 1] ?? 0;
  return (
    <figure class="plot">
      <figcaption>
        {props.series.name} <strong>{short(last)}</strong>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={props.label}>
        <line class="axis" x1="4" y1={HEIGHT - 6} x2={WIDTH - 4} y2={HEIGHT - 6} />
        <polyline class="curve" points={places.map((place) => place.join()).join(" ")} />
        {props.dots && places.map(([x, y]) => <circle key={`${x} ${y}`} class="mark" cx={x} cy={y} r="3" />)}
      </svg>
      <span class="muted small">
        {short(low)} to {short(high)}
      </span>
    </figure>
  );
}

// One value on a scale, with a band that is usual.
export function Strip(props: {
  value: number;
  low: number;
  high: number;
  band?: [number, number];
  label: string;
}) {
  const position = (value: number) =>
    4 + ((Math.min(Math.max(value, props.low), props.high) - props.low) / (props.high - props.low)) * 192;
  return (
    <svg class="strip" viewBox="0 0 200 22" role="img" aria-label={props.label}>
      <line class="axis" x1="4" y1="11" x2="196" y2="11" />
      {props.band !== undefined && (
        <rect
          class="band"
          x={position(props.band[0])}
          y="5"
          width={Math.max(position(props.band[1]) - position(props.band[0]), 2)}
          height="12"
        />
      )}
      <circle class="mark" cx={position(props.value)} cy="11" r="5" />
    </svg>
  );
}

function short(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toPrecision(3);
}

const CHART = { width: 460, height: 250, left: 44, right: 12, top: 10, bottom: 36 };
export const LINE_STYLES = 6; // differ by colour, dashes and marks

// Lines over common axes. They differ by colour, dashes and marks, and the legend shows all three.
export function CurvesPlot(props: {
  title: string;
  series: Series[];
  bound?: Series; // no line can be above it
  xTitle: string;
  yTitle: string;
  label: string;
}) {
  const { left, top } = CHART;
  const innerWidth = CHART.width - left - CHART.right;
  const innerHeight = CHART.height - top - CHART.bottom;
  const all = [...props.series, ...(props.bound ? [props.bound] : [])].flatMap((one) => one.points);
  const lastX = Math.max(...all.map(([x]) => x), 1e-9);
  const high = Math.max(1, ...all.map(([, y]) => y));
  const low = Math.min(0, ...all.map(([, y]) => y));
  const at = ([x, y]: [number, number]): [number, number] => [left + (x / lastX) * innerWidth, top + ((high - y) / (high - low)) * innerHeight];
  const line = (points: [number, number][]) => points.map((point) => at(point).map((place) => place.toFixed(1)).join()).join(" ");
  return (
    <figure class="chart">
      <figcaption>{props.title}</figcaption>
      <svg viewBox={`0 0 ${CHART.width} ${CHART.height}`} role="img" aria-label={props.label}>
        {[0, 0.25, 0.5, 0.75, 1].map((share) => {
          const value = low + share * (high - low);
          const [, y] = at([0, value]);
          return (
            <g key={share}>
              <line class="grid" x1={left} y1={y} x2={left + innerWidth} y2={y} />
              <text class="tick" x={left - 6} y={y + 4} text-anchor="end">
                {value.toFixed(2)}
              </text>
            </g>
          );
        })}
        {[0, 1 / 3, 2 / 3, 1].map((share) => (
          <text key={share} class="tick" x={left + share * innerWidth} y={top + innerHeight + 16} text-anchor="middle">
            {(share * lastX).toFixed(1)}
          </text>
        ))}
        <text class="tick" x={left + innerWidth / 2} y={CHART.height - 4} text-anchor="middle">
          {props.xTitle}
        </text>
        {props.bound && <polyline class="bound" points={line(props.bound.points)} />}
        {props.series.map((one, number) => (
          <g key={one.name} class={`line-${number % LINE_STYLES}`}>
            <polyline class="series" points={line(one.points)} />
            {one.points.filter((_, place) => place % 3 === number % 3).map((point) => {
              const [x, y] = at(point);
              return <Mark key={point[0]} x={x} y={y} number={number} />;
            })}
          </g>
        ))}
      </svg>
      <ul class="legend" aria-label={`Lines of ${props.title}; vertical axis: ${props.yTitle}`}>
        {props.series.map((one, number) => (
          <li key={one.name}>
            <svg class={`sample line-${number % LINE_STYLES}`} viewBox="0 0 34 12" aria-hidden="true">
              <polyline class="series" points="0,6 34,6" />
              <Mark x={17} y={6} number={number} />
            </svg>
            {one.name}
          </li>
        ))}
        {props.bound && (
          <li>
            <svg class="sample" viewBox="0 0 34 12" aria-hidden="true">
              <polyline class="bound" points="0,6 34,6" />
            </svg>
            {props.bound.name}
          </li>
        )}
      </ul>
    </figure>
  );
}

function Mark({ x, y, number }: { x: number; y: number; number: number }) {
  if (number % 3 === 0) return <circle class="point" cx={x} cy={y} r="3.5" />;
  if (number % 3 === 1) return <rect class="point" x={x - 3} y={y - 3} width="6" height="6" />;
  return <path class="point" d={`M${x} ${y - 4}L${x + 4} ${y + 3}L${x - 4} ${y + 3}Z`} />;
}

// How many answers have each number; numbers without any keep their place.
export function BarPlot(props: { title: string; counts: Record<string, number>; xTitle: string; max: number; label: string }) {
  const last = Math.max(1, ...Object.keys(props.counts).map(Number));
  const step = (WIDTH - 16) / last;
  const space = HEIGHT - 34;
  return (
    <figure class="plot">
      <figcaption>{props.title}</figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={props.label}>
        <line class="axis" x1="4" y1={HEIGHT - 18} x2={WIDTH - 4} y2={HEIGHT - 18} />
        {Array.from({ length: last }, (_, place) => {
          const count = props.counts[String(place + 1)] ?? 0;
          const height = (count / Math.max(props.max, 1)) * space;
          const x = 8 + place * step;
          return (
            <g key={place}>
              {count > 0 && <rect class="fill-bar" x={x + step * 0.1} y={HEIGHT - 18 - height} width={step * 0.8} height={height} />}
              {count > 0 && step >= 14 && (
                <text class="tick" x={x + step / 2} y={HEIGHT - 22 - height} text-anchor="middle">
                  {count}
                </text>
              )}
              {(step >= 14 || (place + 1) % 5 === 0) && (
                <text class="tick" x={x + step / 2} y={HEIGHT - 5} text-anchor="middle">
                  {place + 1}
                </text>
              )}
            </g>
          );
        })}
      </svg>
      <span class="muted small">{props.xTitle}</span>
    </figure>
  );
}

// An interval on a scale that has zero in its middle.
export function ZeroInterval(props: { value: number; low: number; high: number; label: string }) {
  const reach = 1.1 * Math.max(Math.abs(props.low), Math.abs(props.high), Math.abs(props.value), 1e-9);
  const position = (value: number) => 70 + (value / reach) * 66;
  return (
    <svg class="zero-interval" viewBox="0 0 140 18" role="img" aria-label={props.label}>
      <line class="axis" x1="4" y1="9" x2="136" y2="9" />
      <line class="zero" x1="70" y1="1" x2="70" y2="17" />
      <line class="reach" x1={position(props.low)} y1="9" x2={position(props.high)} y2="9" />
      <circle class="mark" cx={position(props.value)} cy="9" r="4" />
    </svg>
  );
}
