import { defineTool } from "eve/tools";
import { acts } from "../lib/shop";

export default defineTool(acts("charge", "Do something that must not happen twice."));
